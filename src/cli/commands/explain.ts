import type { Command } from "commander";
import type { Config, InputConfig } from "../../config/config.ts";
import { suggest } from "../../config/suggest.ts";
import { explainRow } from "../../jobs/report/explain-row.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { UsageError } from "../failure.ts";
import { openConfig } from "../open-config.ts";
import { openFilledWarehouse } from "../open-warehouse.ts";
import type { Outcome } from "../outcome.ts";
import { keyValues, parseSourceKey } from "../parse-source-key.ts";
import { renderExplanation } from "../render-explanation.ts";

/** `explain`: shows why one input row is due or isn't. */
export const addExplain: AddCommand = (program, act) => {
  program
    .command("explain")
    .description(
      "show why an input row is due or isn't, the request it makes, its results, rejects and calls; prints personal data",
    )
    .argument("<source/key>", "input name and key, such as customers/4711")
    .action((row: string, _flags: object, command: Command) =>
      act(command, (context) => explain(context, row)),
    );
};

async function explain(context: Context, text: string): Promise<Outcome> {
  const config = await openConfig(context);
  const row = parseSourceKey(text, config.inputs, "explain");
  const input = inputNamed(config, row.source);
  const db = await openFilledWarehouse(context, config);
  const given = { key: keyValues(row, input.key), sourceKey: row.sourceKey };
  const report = await explainRow({ config, db }, input, given);
  return { document: report, text: renderExplanation(report), exitCode: report.is_known ? 0 : 1 };
}

function inputNamed({ inputs }: Config, name: string): InputConfig {
  const input = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
  if (input) return input;
  const known = Object.keys(inputs);
  const similar = suggest(name, known);
  const hint =
    similar === null ? `Inputs of this configuration: ${known.join(", ")}.` : `Did you mean ${similar}?`;
  throw new UsageError(`There is no input ${name}. ${hint}`);
}
