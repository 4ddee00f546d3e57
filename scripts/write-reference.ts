import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { referencePages } from "./reference.ts";

for (const [file, text] of Object.entries(referencePages())) {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}
