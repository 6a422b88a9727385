// Serves fauxqs: node fauxqs.mjs PORT
import { startFauxqs } from "fauxqs";
await startFauxqs({ host: "127.0.0.1", port: Number(process.argv[2]), logger: false });
