import { listGroups, scalarNames } from "../answers/person-groups.ts";

/** Position of names or addresses in a person: index of the list in `listGroups`, and cell of its rows. */
export interface NamingList {
  readonly list: number;
  readonly at: number;
}

/** Scalar with the PID of the spouse. */
export const SPOUSE = scalarNames.indexOf("service_spouse_pid");

/** Lists with PIDs of other people. */
export const relativeLists = listsOf("person_relative", "relative_service_pid");

/** Lists with the person's addresses. */
export const addressLists = listsOf("person_email", "email_address");

function listsOf(table: string, column: string): readonly NamingList[] {
  return listGroups.flatMap((group, list) =>
    group.table === table ? [{ list, at: group.columns.indexOf(column) }] : [],
  );
}
