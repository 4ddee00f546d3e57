import { personChildren } from "../person.ts";
import { selectFirst } from "./first-rows.ts";
import type { View } from "./view.ts";

/** Declares a view of one row per person: the first row of a child table, in an order, with all or some of its columns. */
export function firstOfPerson(
  view: Pick<View, "name" | "doc">,
  tableName: string,
  {
    columns: wanted,
    ...first
  }: {
    readonly columns?: readonly string[];
    readonly orderBy: readonly string[];
    readonly where?: (alias: string) => string;
  },
): View {
  const all = personChildren.find(({ name }) => name === tableName)?.columns ?? [];
  const columns = wanted?.flatMap((name) => all.filter((column) => column.name === name)) ?? all;
  return {
    ...view,
    schema: "data",
    columns,
    reads: [tableName],
    select: (_, ref) =>
      selectFirst({
        from: ref(tableName),
        columns: columns.map(({ name }) => name),
        groupBy: ["service_pid"],
        ...first,
      }),
  };
}
