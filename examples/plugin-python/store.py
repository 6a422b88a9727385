"""A fenced store in one SQLite file. One connection and one lock per file: the
lock orders the threads of this process, BEGIN IMMEDIATE the processes."""

import os
import re
import sqlite3
import threading

from decide import Refusal, decide, empty, parse_put, parse_resolve
from fencedstore.v1 import model_pb2 as pb

VERSION = "1.0.0"
LAYOUT = 1
QUARANTINE = 100
LIMITS = pb.Limits(effects=1000, value_bytes=1 << 20, total_bytes=4 << 20, quarantine=QUARANTINE)
KINDS = ["kv.put.v1", "kv.delete.v1", "quarantine.resolve.v1"]

SCHEMA = """
CREATE TABLE meta (layout INTEGER NOT NULL, namespace TEXT NOT NULL);
CREATE TABLE fence (ns TEXT, resource TEXT, state BLOB NOT NULL, highest INTEGER NOT NULL, PRIMARY KEY (ns, resource)) WITHOUT ROWID;
CREATE TABLE receipt (ns TEXT, resource TEXT, operation TEXT, body BLOB NOT NULL, PRIMARY KEY (ns, resource, operation)) WITHOUT ROWID;
CREATE TABLE value (ns TEXT, resource TEXT, key BLOB, value BLOB NOT NULL, PRIMARY KEY (ns, resource, key)) WITHOUT ROWID;
CREATE TABLE quarantine (ns TEXT, resource TEXT, fence INTEGER, segment INTEGER, operation TEXT, payload BLOB, body BLOB NOT NULL,
  PRIMARY KEY (ns, resource, fence, segment, operation, payload)) WITHOUT ROWID;
CREATE TABLE dropped (ns TEXT, resource TEXT, n INTEGER NOT NULL, PRIMARY KEY (ns, resource)) WITHOUT ROWID;
CREATE TRIGGER fence_never_lower BEFORE UPDATE ON fence WHEN NEW.highest < OLD.highest
  BEGIN SELECT RAISE(ABORT, 'the fence never goes down'); END;
CREATE TRIGGER fence_never_gone BEFORE DELETE ON fence
  BEGIN SELECT RAISE(ABORT, 'the fence never goes away'); END;
CREATE TRIGGER receipt_never_gone BEFORE DELETE ON receipt
  BEGIN SELECT RAISE(ABORT, 'receipts are permanent'); END;
"""

files = {}
files_lock = threading.Lock()


class File:
    """A database file with its one connection and its users."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.users = 0
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=20)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")


def open_store(request):
    scheme, _, path = request.dsn.partition(":")
    if scheme != "pysqlite" or not path:
        raise Refusal(pb.CODE_INVALID, "DSN", "not pysqlite:PATH")
    name = request.namespace or "main"
    base = name.removesuffix(".shadow")
    if not re.fullmatch("[a-z0-9_-]{1,64}", base):
        raise Refusal(pb.CODE_INVALID, "namespace", "not 1 to 64 of a-z 0-9 _ -")
    path = os.path.abspath(path)
    with files_lock:
        try:
            file = files.get(path) or File(path)
            prepare(file, base)
        except sqlite3.DatabaseError as e:
            if isinstance(e, sqlite3.OperationalError):
                raise Refusal(pb.CODE_NOT_APPLIED, "DSN", f"the file cannot be opened: {e}") from e
            raise Refusal(pb.CODE_UNSUITABLE, "DSN", f"not a database of this plug-in: {e}") from e
        file.users += 1
        files[path] = file
    return Store(path, file, name)


def prepare(file, base):
    with file.lock:
        file.db.execute("BEGIN IMMEDIATE")
        try:
            tables = {row[0] for row in file.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables:
                for statement in split(SCHEMA):
                    file.db.execute(statement)
                file.db.execute("INSERT INTO meta VALUES (?, ?)", (LAYOUT, base))
            elif "meta" not in tables:
                raise Refusal(pb.CODE_UNSUITABLE, "layout", "the file holds tables of something else; name another")
            else:
                layout, namespace = file.db.execute("SELECT layout, namespace FROM meta").fetchone()
                if layout != LAYOUT:
                    raise Refusal(pb.CODE_UNSUITABLE, "layout", f"layout {layout}; this version knows {LAYOUT}")
                if namespace != base:
                    raise Refusal(pb.CODE_UNSUITABLE, "namespace", f"this store was created with {namespace!r}")
            file.db.execute("COMMIT")
        except BaseException:
            file.db.execute("ROLLBACK")
            raise


def split(script):
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            yield part
            part = ""


class Store:
    def __init__(self, path, file, namespace):
        self.path, self.file, self.ns = path, file, namespace

    def close(self):
        with files_lock:
            self.file.users -= 1
            if self.file.users == 0:
                files.pop(self.path, None)
                with self.file.lock:
                    self.file.db.close()

    def describe(self):
        def capability(name, supported, reason=""):
            return pb.Capability(name=name, reason=reason,
                                 support=pb.SUPPORT_SUPPORTED if supported else pb.SUPPORT_UNSUPPORTED)
        return pb.Description(
            name="pysqlite", version=VERSION, backend="SQLite " + sqlite3.sqlite_version, environment="embedded",
            kinds=KINDS, limits=LIMITS, capabilities=[
                capability("durable", True), capability("shared", True),
                capability("apply_tx", False, "caller's code cannot run in a plug-in"),
                capability("native_effects", False, "it has no effect kinds of its own"),
                capability("parallel", False, "one writer at a time"),
                capability("dial", False, "nothing goes over a wire")])

    def transaction(self, context, begin, work):
        """Runs work in a transaction; nothing is committed for a caller that is gone."""
        self.file.lock.acquire()
        try:
            if not context.is_active():
                raise Refusal(pb.CODE_NOT_APPLIED, "", "the caller gave up, nothing was done")
            self.file.db.execute(begin)
            try:
                result = work(self.file.db)
                if not context.is_active():
                    raise Refusal(pb.CODE_NOT_APPLIED, "", "the caller gave up, nothing was committed")
            except BaseException:
                self.file.db.execute("ROLLBACK")
                raise
            self.file.db.execute("COMMIT")
            return result
        finally:
            self.file.lock.release()

    # What is stored.

    def state(self, db, resource):
        row = db.execute("SELECT state FROM fence WHERE ns = ? AND resource = ?", (self.ns, resource)).fetchone()
        if row:
            return pb.FenceState.FromString(row[0])
        row = db.execute("SELECT 1 FROM receipt WHERE ns = ? AND resource = ? LIMIT 1", (self.ns, resource)).fetchone()
        if row:
            raise Refusal(pb.CODE_FENCE_REGRESSION, "fence", "missing though there are receipts", True)
        return empty()

    def receipt(self, db, resource, operation):
        row = db.execute("SELECT body FROM receipt WHERE ns = ? AND resource = ? AND operation = ?",
                         (self.ns, resource, operation)).fetchone()
        return pb.Receipt.FromString(row[0]) if row else None

    # The calls.

    def apply(self, context, m):
        check(m)

        def work(db):
            before = self.state(db, m.resource)
            prior = self.receipt(db, m.resource, m.operation)
            code, after, field, message, alarm = decide(before, prior, m)
            receipt = prior
            if code == pb.CODE_ACCEPTED:
                receipt = self.commit(db, m, after)
            elif code == pb.CODE_QUARANTINED:
                self.quarantine(db, m)
            observed = after if code == pb.CODE_ACCEPTED else before
            return code, receipt, observed, field, message, alarm

        return self.transaction(context, "BEGIN IMMEDIATE", work)

    def commit(self, db, m, after):
        receipt = pb.Receipt(resource=m.resource, operation=m.operation, fence=m.fence, segment=m.segment, root=m.root,
                             grant=m.grant, payload=m.payload, owner=m.owner, time_unix_ms=m.time_unix_ms, result=m.result)
        db.execute("INSERT INTO receipt VALUES (?, ?, ?, ?)", (self.ns, m.resource, m.operation, receipt.SerializeToString()))
        db.execute("INSERT INTO fence VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state, highest = excluded.highest",
                   (self.ns, m.resource, after.SerializeToString(), after.highest))
        for e in m.effects:
            if e.kind == "kv.put.v1":
                key, value = parse_put(e.body)
                db.execute("INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?)", (self.ns, m.resource, key, value))
            elif e.kind == "kv.delete.v1":
                db.execute("DELETE FROM value WHERE ns = ? AND resource = ? AND key = ?", (self.ns, m.resource, e.body))
            else:
                self.resolve(db, m, parse_resolve(e.body))
        return receipt

    def resolve(self, db, m, key):
        where = "WHERE ns = ? AND resource = ? AND fence = ? AND segment = ? AND operation = ? AND payload = ?"
        fence, segment, payload, operation = key
        at = (self.ns, m.resource, fence, segment, operation, payload)
        row = db.execute("SELECT body FROM quarantine " + where, at).fetchone()
        if row:
            q = pb.Quarantine.FromString(row[0])
            if not q.resolved_by:
                q.resolved_by = m.operation
                db.execute("UPDATE quarantine SET body = ? " + where, (q.SerializeToString(), *at))

    def quarantine(self, db, m):
        at = (self.ns, m.resource, m.fence, m.segment, m.operation, m.payload)
        known = db.execute("SELECT 1 FROM quarantine WHERE ns = ? AND resource = ? AND fence = ? AND segment = ? AND operation = ? AND payload = ?",
                           at).fetchone()
        if known:
            return
        (n,) = db.execute("SELECT count(*) FROM quarantine WHERE ns = ? AND resource = ?", (self.ns, m.resource)).fetchone()
        if n >= QUARANTINE:
            db.execute("INSERT INTO dropped VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET n = n + 1", (self.ns, m.resource))
            return
        q = pb.Quarantine(fence=m.fence, segment=m.segment, operation=m.operation, payload=m.payload, resource=m.resource,
                          grant=m.grant, owner=m.owner, time_unix_ms=m.time_unix_ms)
        db.execute("INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?)", (*at, q.SerializeToString()))

    def inspect(self, context, resource):
        return self.transaction(context, "BEGIN", lambda db: self.state(db, resource))

    def get_receipt(self, context, resource, operation):
        found = self.transaction(context, "BEGIN", lambda db: self.receipt(db, resource, operation))
        if found is None:
            raise Refusal(pb.CODE_NOT_FOUND, "operation", "it has no receipt")
        return found

    def read(self, context, resource, key):
        row = self.transaction(context, "BEGIN", lambda db: db.execute(
            "SELECT value FROM value WHERE ns = ? AND resource = ? AND key = ?", (self.ns, resource, key.encode())).fetchone())
        if row is None:
            raise Refusal(pb.CODE_NOT_FOUND, "key", "it is not set")
        return row[0]

    def quarantined(self, context, resource):
        def work(db):
            rows = db.execute("SELECT body FROM quarantine WHERE ns = ? AND resource = ? ORDER BY fence, segment, operation, payload",
                              (self.ns, resource)).fetchall()
            out = [pb.Quarantine.FromString(row[0]) for row in rows]
            row = db.execute("SELECT n FROM dropped WHERE ns = ? AND resource = ?", (self.ns, resource)).fetchone()
            if row:
                out.append(pb.Quarantine(resource=resource, dropped=row[0]))
            return out
        return self.transaction(context, "BEGIN", work)

    def probe(self, context):
        mode = self.file.db.execute("PRAGMA synchronous").fetchone()[0]
        if mode < 2:
            raise Refusal(pb.CODE_UNSUITABLE, "synchronous", "accepted mutations would not be durable")
        self.transaction(context, "BEGIN IMMEDIATE", lambda db: db.execute("SELECT 1 FROM fence LIMIT 1").fetchone())


def check(m):
    """What is wrong with a mutation whatever the store holds. The host has
    checked names and ranges; this plug-in does not rely on it for what could
    harm the data."""
    if not 1 <= m.fence <= 2**63 - 1 or not 1 <= m.segment <= 2**62:
        raise Refusal(pb.CODE_INVALID, "fence", "fence or segment is out of range")
    if not all(len(d) == 32 and any(d) for d in (m.grant, m.root, m.payload)):
        raise Refusal(pb.CODE_INVALID, "digest", "not 32 bytes, or zero")
    if len(m.effects) > LIMITS.effects:
        raise Refusal(pb.CODE_TOO_LARGE, "effects", "too many")
    total = len(m.result)
    for e in m.effects:
        if e.kind not in KINDS:
            raise Refusal(pb.CODE_UNSUPPORTED, "effect kind", e.kind)
        if len(e.body) > LIMITS.value_bytes:
            raise Refusal(pb.CODE_TOO_LARGE, "effect", "too large")
        total += len(e.body)
    if total > LIMITS.total_bytes:
        raise Refusal(pb.CODE_TOO_LARGE, "effects", "too large together")
