/** Organization of every key that doesn't name another one. */
export const HOME_ORGANIZATION = "home";

/** True for a key without a user, with which asynchronous person search is refused (section 5): `…organization-only`. */
export function isOrganizationOnly(key: unknown): boolean {
  return typeof key === "string" && /(^|-)organization-only$/.test(key);
}

/** Organization of a key: NAME for `org-NAME` and `org-NAME-…`, otherwise {@link HOME_ORGANIZATION}. */
export function organizationOf(key: unknown): string {
  const name = typeof key === "string" ? /^org-([^-]+)/.exec(key)?.[1] : undefined;
  return name ?? HOME_ORGANIZATION;
}
