import { renewInputViews } from "../../src/load/db/input-views.ts";
import { describe, expect, test, onTestFinished } from "vitest";
import { enrichSpec } from "./suite/people.ts";
import { MIGRATIONS, connect, freshDatabase, open, roleIn, SCHEMAS } from "./bare-database.ts";

describe("rights", () => {
  test("on schemas and tables of another role are required", async () => {
    const database = await freshDatabase();
    await open(database.url).migrate();
    const { url, role, admin } = await roleIn(database, "SELECT 1");
    expect(await open(url).isMigrated()).toBe(true);
    const missing = async () =>
      (await open(url).checkDatabase()).filter((line) => !line.ok).map(({ message }) => message);
    expect(await missing()).toEqual(SCHEMAS.map(() => `${role} may not create tables in it.`));
    expect((await open(url).checkDatabase()).find((line) => !line.ok)?.hint).toBe(
      `As its owner: GRANT USAGE, CREATE ON SCHEMA "person_data" TO "${role}";`,
    );
    await admin.query(
      SCHEMAS.map((schema) => `GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${role}`).join("; "),
    );
    expect(await missing()).toEqual([
      `${role} may not write to some of its tables, such as audience_search.`,
      `${role} may not write to some of its tables, such as api_call.`,
      `${role} may not write to some of its tables, such as alert_state.`,
    ]);
    await expect(open(url).readIdentity()).rejects.toMatchObject({ code: "database_refused" });
    await admin.query(
      SCHEMAS.map((s) => `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${s} TO ${role}`).join(
        "; ",
      ),
    );
    expect(await missing()).toEqual([]);
    // Only the owner of the tables may index the key.
    await renewInputViews(open(url).db, { input: "customers", key: [{ name: "id", type: "integer" }] });
    expect((await (await connect(url)).query("SELECT FROM person_data.profile_customers")).rows).toEqual([]);
  });

  test("of the printed roles suffice: the loader migrates and runs, readers see their schemas alone", async () => {
    const database = await freshDatabase();
    const admin = await connect(database.url);
    const suffix = new URL(database.url).pathname.slice(1);
    const roles = ["loader", "people_reader", "ops_reader"].map((role) => `person_etl_${role}_${suffix}`);
    const grants = open(database.url)
      .printGrants()
      .replaceAll(/person_etl_\w+?(?=[ '"`;])/g, `$&_${suffix}`);
    await admin.query(grants);
    onTestFinished(async () => {
      for (const role of roles) await admin.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`);
    });
    await admin.query(`ALTER ROLE ${roles[0]} PASSWORD 'secret'`);
    const url = new URL(database.url);
    url.username = roles[0] ?? "";
    url.password = "secret";
    const warehouse = open(url.href);
    expect((await warehouse.checkDatabase()).filter((line) => !line.ok)).toEqual([]);
    expect(await warehouse.migrate()).toEqual(MIGRATIONS);
    await renewInputViews(warehouse.db, { input: "customers", key: [{ name: "id", type: "integer" }] });
    const readable = async (role: string | undefined) => {
      const found: string[] = [];
      for (const name of [
        "person_data.person",
        "person_data.person_education_subject",
        "person_data.profile_customers",
        "person_data_ops.table_freshness",
        "person_data_ops.publication",
        "person_data_state.lookup_answer",
        "person_data_state.erasure_key",
      ]) {
        await admin.query(`SET ROLE ${role}`);
        const rows = await admin.query(`SELECT FROM ${name}`).catch(() => null);
        await admin.query("RESET ROLE");
        if (rows) found.push(name);
      }
      return found;
    };
    expect(await readable(roles[1])).toEqual([
      "person_data.person",
      "person_data.person_education_subject",
      "person_data.profile_customers",
      "person_data_ops.table_freshness",
      "person_data_ops.publication",
    ]);
    expect(await readable(roles[2])).toEqual([
      "person_data_ops.table_freshness",
      "person_data_ops.publication",
    ]);
  });

  test("to create temporary tables are required", async () => {
    const database = await freshDatabase();
    const { url, role, name } = await roleIn(
      database,
      "REVOKE TEMPORARY ON DATABASE DATABASE_NAME FROM PUBLIC; GRANT CREATE ON DATABASE DATABASE_NAME TO ROLE",
    );
    expect((await open(url).checkDatabase()).filter((line) => !line.ok)).toEqual([
      {
        subject: "temporary tables",
        ok: false,
        message: `${role} may not create temporary tables, which every run needs.`,
        hint: `As an administrator: GRANT TEMPORARY ON DATABASE "${name}" TO "${role}";`,
      },
    ]);
  });

  test("to read an input are required", async () => {
    const database = await freshDatabase();
    const { url, role } = await roleIn(
      database,
      "CREATE SCHEMA crm; CREATE TABLE crm.people (id int); GRANT USAGE ON SCHEMA crm TO ROLE",
    );
    const { input } = enrichSpec();
    expect(await open(url).checkInput({ ...input, fields: {} })).toEqual([
      {
        path: "inputs.people.table",
        message: "Can't read crm.people: permission denied for table people.",
        hint: `As its owner: GRANT USAGE ON SCHEMA "crm" TO "${role}"; GRANT SELECT ON "crm"."people" TO "${role}".`,
      },
    ]);
  });
});
