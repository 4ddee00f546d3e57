import { listGroups, scalarNames } from "../answers/person-groups.ts";

/** Where a person's rows name people or addresses: the list by the order of `listGroups`, and the cell of its rows. */
export interface NamingList {
  readonly list: number;
  readonly at: number;
}

/** The scalar that names the spouse. */
export const SPOUSE = scalarNames.indexOf("service_spouse_pid");

/** Lists that name other people by their PIDs. */
export const relativeLists = listsOf("person_relative", "relative_service_pid");

/** Lists of the person's addresses. */
export const addressLists = listsOf("person_email", "email_address");

function listsOf(table: string, column: string): readonly NamingList[] {
  return listGroups.flatMap((group, list) =>
    group.table === table ? [{ list, at: group.columns.indexOf(column) }] : [],
  );
}
