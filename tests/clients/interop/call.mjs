// Makes the calls of the page that it is told on standard input, and writes the answers.
import { readFileSync } from "node:fs";
import { submit, write } from "./page.mjs";

const { base, run, claim, entry, keyId, pem } = JSON.parse(readFileSync(0, "utf8"));
const answers = [await submit(base, run, claim), await write(base, "vault", entry, keyId, pem)];
process.stdout.write(JSON.stringify(answers));
