import { deathSignalsRoute } from "./death-signals.ts";
import { endpointUsageRoute } from "./endpoint-usage.ts";
import { enrichRoute } from "./enrich.ts";
import { personSearchUsageRoute } from "./person-search-usage.ts";
import { resolveRoute } from "./resolve.ts";
import type { Route } from "./route.ts";
import { createSegmentRoute } from "./segment-create.ts";
import { addMembersRoute, removeMembersRoute } from "./segment-changes.ts";
import { segmentMembersRoute } from "./segment-members.ts";
import { validateEmailsRoute } from "./validate-emails.ts";

/** Every path that the sandbox serves; all others answer 404 `not_found`, also v1 paths of v2-only endpoints. */
export const ROUTES: ReadonlyMap<string, Route> = new Map(
  [
    resolveRoute,
    validateEmailsRoute,
    enrichRoute,
    createSegmentRoute,
    segmentMembersRoute,
    addMembersRoute,
    removeMembersRoute,
    deathSignalsRoute,
    endpointUsageRoute,
    personSearchUsageRoute,
  ].map((route) => [route.path, route]),
);
