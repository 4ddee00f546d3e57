import type { Config } from "../config/config.ts";
import { attempt, type Finding } from "./check-finding.ts";
import { openDestinations } from "./open-publisher.ts";

/** Checks access, privileges and settings of every destination; creates nothing. */
export async function checkDestinations(config: Config): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const { destination, catalog } of openDestinations(config)) {
    const subject = `publish.${destination.name}`;
    findings.push(
      ...(await attempt(subject, async () => {
        try {
          const lines = await destination.check(catalog);
          return lines.map(({ ok, ...line }): Finding => ({ subject, ...line, status: ok ? "ok" : "wrong" }));
        } catch (error) {
          throw destination.explain(error);
        } finally {
          await destination.close();
        }
      })),
    );
  }
  return findings;
}
