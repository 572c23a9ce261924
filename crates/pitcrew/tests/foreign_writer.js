// Another program that appends to an inbox as the reference client does: takes npm's proper-lockfile lock, reads the array
// and rewrites the file, in place or through a rename.
// usage: node foreign_writer.js INBOX NAME COUNT inplace|rename
const fs = require("fs");
const lockfile = require("proper-lockfile");

const [inbox, name, count, style] = process.argv.slice(2);
const patience = { retries: 5000, factor: 1.2, minTimeout: 1, maxTimeout: 25, randomize: true };

async function append(n) {
  const release = await lockfile.lock(inbox, { lockfilePath: `${inbox}.lock`, retries: patience });
  const messages = JSON.parse(fs.readFileSync(inbox, "utf8"));
  messages.push({ from: name, text: `${name} ${n}`, timestamp: new Date().toISOString(), color: "blue", read: false });
  const text = JSON.stringify(messages, null, 2);
  if (style === "rename") {
    fs.writeFileSync(`${inbox}.${process.pid}`, text);
    fs.renameSync(`${inbox}.${process.pid}`, inbox);
  } else {
    fs.writeFileSync(inbox, text);
  }
  await release();
}

(async () => {
  for (let n = 0; n < Number(count); n++) {
    await append(n);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 4));
  }
})().catch((error) => {
  console.error(`${name}: ${error}`);
  process.exit(1);
});
