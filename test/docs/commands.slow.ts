import { readdir, readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { runCli } from "../cli/support/cli.ts";
import { makeSetting } from "../cli/support/setting.ts";

/** Commands in a page's `sh` blocks. */
async function commandsOf(file: string): Promise<readonly (readonly string[])[]> {
  const blocks = (await readFile(file, "utf8")).matchAll(/^```sh\n([\s\S]*?)^```$/gm);
  return [...blocks].flatMap(([, block = ""]) =>
    block
      .trim()
      .split("\n")
      .map((line) => line.replace(/^person-etl /, "").split(" ")),
  );
}

// A dozen processes, one after the other.
const TIME_LIMIT_MS = 180_000;

it(
  "every command in the guides works against the sandbox and a fresh warehouse",
  async () => {
    const pages = (await readdir("docs")).filter((name) => name.endsWith(".md")).toSorted();
    const shown = await Promise.all(
      pages.map(async (name) => [name, await commandsOf(`docs/${name}`)] as const),
    );
    expect(shown.filter(([, commands]) => commands.length > 0).map(([name]) => name)).toEqual(
      expect.arrayContaining(["first-run.md", "operating.md"]),
    );
    const setting = await makeSetting({ rows: 150 });
    // The first night creates the data for the other pages.
    const inOrder = shown.toSorted(([a], [b]) => Number(b === "first-run.md") - Number(a === "first-run.md"));
    const done = new Set<string>();
    for (const [name, commands] of inOrder) {
      for (const command of commands) {
        // Commands that the first night already ran are skipped.
        if (name !== "first-run.md" && done.has(command.join(" "))) continue;
        done.add(command.join(" "));
        const { code, stderr } = await runCli(command, setting);
        expect({ name, command, code, stderr }).toEqual({
          name,
          command,
          code: 0,
          stderr: expect.anything(),
        });
      }
    }
    // Results of the first night's last two commands: everything sent, nothing due.
    expect((await runCli(["--json", "plan"], setting)).stdout).toContain('"records_to_send":0');
  },
  TIME_LIMIT_MS,
);
