/** Organization of every key that doesn't name another one. */
export const HOME_ORGANIZATION = "home";

/** Whom a key belongs to: `org-NAME` and `org-NAME-…` to NAME, all others to {@link HOME_ORGANIZATION}. */
export function organizationOf(key: unknown): string {
  const name = typeof key === "string" ? /^org-([^-]+)/.exec(key)?.[1] : undefined;
  return name ?? HOME_ORGANIZATION;
}
