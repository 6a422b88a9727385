import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import java.util.List;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.h2.mvstore.MVStore;

/**
 * mongo-java-server over one H2 file: Serve HOST PORT FILE. The library itself
 * writes its file once a second; here it does so before every answer. Commands
 * run side by side, as the library runs them; only the writing of the file is
 * apart from them, so that it never holds half a command.
 */
public class Serve {
    public static void main(String[] args) {
        MVStore store = new MVStore.Builder().fileName(args[2]).autoCommitDisabled().open();
        ReadWriteLock lock = new ReentrantReadWriteLock();
        new MongoServer(new H2Backend(store) {
            @Override
            public Document handleMessage(MongoMessage message) {
                Document answer;
                lock.readLock().lock();
                try {
                    answer = super.handleMessage(message);
                } finally {
                    lock.readLock().unlock();
                }
                lock.writeLock().lock();
                try {
                    if (store.hasUnsavedChanges()) { // otherwise another command's turn has written it
                        commit();
                        store.sync();
                    }
                } finally {
                    lock.writeLock().unlock();
                }
                return answer;
            }
        }.version(new Version())).bind(args[0], Integer.parseInt(args[1]));
    }

    /** What the server says of itself. The library says less than drivers take. */
    private static class Version implements MongoVersion {
        @Override
        public List<Integer> getVersionArray() {
            return List.of(4, 4, 0);
        }

        @Override
        public int getWireVersion() {
            return 9;
        }
    }
}
