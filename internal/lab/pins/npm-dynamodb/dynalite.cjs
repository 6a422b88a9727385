// Serves dynalite: node dynalite.cjs HOST PORT FOLDER
// A request that its client cuts off makes dynalite throw; that must not end it.
process.on("uncaughtException", (err) => {
  if (err.code === "ECONNRESET" || err.code === "EPIPE") return;
  console.error(err);
  process.exit(1);
});
const [host, port, path] = process.argv.slice(2);
require("dynalite")({ path, createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 }).listen(Number(port), host);
