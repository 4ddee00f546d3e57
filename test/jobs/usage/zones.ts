import * as fc from "../../support/fast-check.ts";

export const SIZES = ["hour", "day", "week", "month", "quarter", "year"] as const;
const zoneNames = Intl.supportedValuesOf("timeZone");

/** No changes, both hemispheres, half and quarter hours, changes at midnight or of 30 minutes, no offset in winter, extremes. */
const KINDS =
  "UTC Europe/London America/New_York Europe/Berlin Asia/Kolkata Asia/Kathmandu America/Santiago America/Havana Africa/Cairo Asia/Beirut " +
  "Australia/Lord_Howe Pacific/Chatham Pacific/Kiritimati Pacific/Niue Africa/Casablanca America/St_Johns Atlantic/Azores Antarctica/Troll";

/** Any zone, more often one of a special kind. */
export const anyZone = fc.oneof(fc.constantFrom(...KINDS.split(" ")), fc.constantFrom(...zoneNames));
