import { chmod, chown, mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { refuseForeignFolder } from "../../src/cli/app.ts";
import { makeFolder } from "./support/cli.ts";

const NOBODY = 65_534;

test("root doesn't touch a data_dir that another user owns or can write to, nor a link to one or of one", async () => {
  const isRoot = process.getuid?.() === 0;
  const folder = await makeFolder();
  const foreign = join(folder, "foreign");
  await mkdir(foreign);
  await symlink(foreign, join(folder, "link"));
  const open = join(folder, "open");
  await mkdir(open);
  await chmod(open, 0o777);
  // Without root, the folder already belongs to another user.
  if (isRoot) await chown(foreign, NOBODY, NOBODY);
  const getuid = vi.spyOn(process, "getuid").mockReturnValue(0);
  onTestFinished(() => getuid.mockRestore());
  for (const path of [foreign, join(folder, "link"), open]) {
    await expect(refuseForeignFolder(path)).rejects.toMatchObject({ code: "data_dir_owner" });
  }
  await expect(refuseForeignFolder(join(folder, "not-there-yet"))).resolves.toBeUndefined();
  await expect(refuseForeignFolder("/")).resolves.toBeUndefined();
});
