// Serves s3rver: node s3rver.cjs PORT FOLDER KEY SECRET
const S3rver = require("s3rver");
const Account = require("s3rver/lib/models/account");
const [port, directory, key, secret] = process.argv.slice(2);
Account.DUMMY_ACCOUNT.createKeyPair(key, secret);
new S3rver({ address: "127.0.0.1", port: Number(port), directory, silent: true, vhostBuckets: false, allowMismatchedSignatures: true }).run();
