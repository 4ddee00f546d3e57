import { lchown, readFile, stat } from "node:fs/promises";
import { FixConfigurationError } from "../../errors.ts";

/** Account of the server if we are root: Postgres refuses to run as root. */
export interface ServerUser {
  /** Name, for messages. */
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  /** Account that makes a new cluster for a user without one: initdb requires one. */
  readonly maker?: ServerUser;
}

/** Accounts to run as, best first. */
const OWN = ["person-etl", "postgres", "_postgres"];
/** Accounts of other services too, which would have access to the data: they only make the cluster. */
const SHARED = ["nobody", "daemon"];
/** User IDs that no system assigns (systemd's list of user IDs). */
const UNASSIGNED = Array.from({ length: 478 }, (_, i) => 60_706 + i);

/** True if this process can change to another user. */
export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/** Returns null unless root; as root the owner of existing data, else an account for servers, else a user of its own. */
export async function chooseServerUser(
  owner: { uid: number; gid: number } | null,
): Promise<ServerUser | null> {
  if (!isRoot()) return null;
  if (owner?.uid === 0) {
    throw new FixConfigurationError(
      "embedded_owner",
      "The data of the embedded database belongs to root, and Postgres refuses to run as root. Restore its owner with chown -R.",
    );
  }
  if (owner !== null) return { name: `uid ${owner.uid}`, uid: owner.uid, gid: owner.gid };
  const accounts = parseAccounts(await readFile("/etc/passwd", "utf8").catch(() => ""));
  const hasPostgres = (await stat("/var/lib/postgresql").catch(() => null)) !== null;
  // The server's user must not own another cluster.
  const preferred = OWN.filter((name) => !hasPostgres || name !== "postgres");
  const find = (names: readonly string[]) =>
    names.flatMap((name) => accounts.filter((account) => account.name === name))[0];
  const own = find(preferred);
  if (own) return own;
  const maker = find(SHARED);
  const id = UNASSIGNED.find((one) => !accounts.some(({ uid, gid }) => uid === one || gid === one));
  if (maker && id !== undefined) return { name: `uid ${id}`, uid: id, gid: id, maker };
  throw new FixConfigurationError(
    "embedded_user",
    `Postgres refuses to run as root, and /etc/passwd has none of the accounts ${[...preferred, ...SHARED].join(", ")}. ` +
      "Run person-etl as another user, or set warehouse.url to your own Postgres.",
  );
}

/** Accounts of /etc/passwd, except root and those with invalid ids. */
export function parseAccounts(passwd: string): ServerUser[] {
  return passwd
    .split("\n")
    .map((line) => line.split(":"))
    .map(([name = "", , uid = "", gid = ""]) => ({ name, uid: Number(uid || "0"), gid: Number(gid || "0") }))
    .filter(({ name, uid, gid }) => name !== "" && uid > 0 && uid < 2 ** 31 && gid > 0 && gid < 2 ** 31);
}

/** Changes the owner of a file or folder to the server's user, if different. */
export async function giveTo(user: ServerUser | null, path: string): Promise<void> {
  if (user) await lchown(path, user.uid, user.gid);
}
