import { expect, it } from "vitest";
import { listFields, scalarFields } from "../../src/config/schema/inputs.ts";
import { endpointPaths } from "../../src/config/schema/document.ts";
import * as enrich from "../../src/schemas/enrich.ts";
import { lookupEndpoints } from "../../src/schemas/registry.ts";
import * as resolve from "../../src/schemas/resolve.ts";
import { matchConditionFields } from "../../src/schemas/enrich.ts";

// The configuration may not import the schemas; that both say the same is held here.
it("the configuration accepts the fields, conditions and endpoints that the schemas declare", () => {
  expect(scalarFields.toSorted()).toEqual(enrich.enrichScalarFields.toSorted());
  expect(listFields.toSorted()).toEqual(enrich.enrichListFields.toSorted());
  expect([...scalarFields, ...listFields]).toEqual(
    expect.arrayContaining([...resolve.resolveScalarFields, ...resolve.resolveListFields]),
  );
  expect(matchConditionFields).toEqual(enrich.matchConditionFields);
  expect(endpointPaths).toEqual(expect.arrayContaining(lookupEndpoints.map((endpoint) => endpoint.path)));
});
