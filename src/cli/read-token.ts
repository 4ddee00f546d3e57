import { randomUUID } from "node:crypto";
import type { Config } from "../config/config.ts";
import { codeOf } from "../errors.ts";
import type { Context } from "./context.ts";

/** Reads the token of the pages; an unknown random one while it can't be read, which keeps them inaccessible. */
export async function readToken(
  { scrubber, log }: Pick<Context, "scrubber" | "log">,
  { http }: Pick<Config, "http">,
): Promise<string> {
  try {
    const token = (await http.token?.read()) ?? randomUUID();
    scrubber.hide(token);
    return token;
  } catch (error) {
    log.warn({ code: codeOf(error) }, "token_unreadable");
    return randomUUID();
  }
}
