import type { Fields } from "../../src/schemas/field.ts";
import { personFields, personLists } from "../../src/schemas/person.ts";

const typesOf = (fields: Fields) => Object.entries(fields).map(([name, { type }]) => [name, type] as const);

/** Tables and columns that a peer fills: the service's fields, as person-etl declares them, without its derived columns. */
export const declaration = {
  person: [["service_pid", "text"], ...typesOf(personFields)],
  lists: Object.fromEntries(
    Object.entries(personLists).map(([name, list]) => [
      name,
      {
        table: list.table,
        ...("discriminator" in list ? { discriminator: list.discriminator } : {}),
        fields: typesOf(list.fields),
      },
    ]),
  ),
};
