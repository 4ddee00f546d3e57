import { describe, expect, it } from "vitest";
import { findPeople, proposeFields, proposeKey } from "../../../src/cli/init/propose.ts";
import type { Table, TableColumn } from "../../../src/load/inputs/postgres-profile.ts";

const CATEGORIES: Readonly<Record<string, string>> = {
  text: "S",
  integer: "N",
  bigint: "N",
  jsonb: "U",
  uuid: "U",
  boolean: "B",
  date: "D",
  "timestamp with time zone": "D",
  "timestamp without time zone": "D",
  "text[]": "A",
  "jsonb[]": "A",
  status_kind: "E",
};

/** A column, text unless a type follows its name after a colon. */
function columnOf(text: string): TableColumn {
  const [name = "", typeName = "text"] = text.split(":");
  const category = CATEGORIES[typeName] ?? "U";
  return { name, typeName, category, isArray: category === "A" };
}

function table(columns: readonly string[], others: Partial<Table> = {}): Table {
  return {
    schema: "crm",
    name: "customers",
    isView: false,
    rows: null,
    columns: columns.map(columnOf),
    uniqueKeys: [],
    ...others,
  };
}

const unique = (columns: readonly string[], kind: "primary" | "filled" | "nullable") => ({
  columns,
  isPrimary: kind === "primary",
  isNullable: kind === "nullable",
});
const named = (name: string, columns: string) => table(columns.split(" "), { name });
const fieldsOf = (columns: string) => proposeFields(table(columns.split(" "))).fields;

describe("fields", () => {
  it.each([
    `German: first_name=Vorname last_name=Nachname emails=E-Mail phones=Telefonnummer,Handy address_line_1=Straße city=Ort
      state=Bundesland zipcode=PLZ`,
    "French: first_name=prénom last_name=nom emails=courriel phones=téléphone address_line_1=adresse city=ville zipcode=code_postal",
    `Spanish: first_name=nombre last_name=apellidos emails=correo_electronico phones=telefono_movil address_line_1=direccion
      city=ciudad zipcode=codigo_postal`,
    `Italian: first_name=nome last_name=cognome emails=indirizzo_email phones=cellulare address_line_1=via city=città
      state=provincia zipcode=cap`,
    "Dutch: first_name=voornaam last_name=achternaam emails=emailadres address_line_1=straat city=woonplaats zipcode=postcode",
    `English: first_name=cust_fname last_name=cust_lname emails=primary_email,work_email2 phones=cell-phone
      linkedin_url=LinkedIn_URL address_line_1=Address1 address_line_2=Address2 city=City state=State zipcode=ZipCode`,
  ])("are found by names of %s", (line) => {
    const [, ...mappings] = line.split(/\s+/u);
    const fields = mappings
      .map((mapping) => mapping.split("="))
      .map(([field, columns]) => [field, columns?.split(",")]);
    expect(
      fieldsOf(
        fields
          .map(([, columns]) => columns)
          .flat()
          .join(" "),
      ),
    ).toEqual(Object.fromEntries(fields));
  });

  it("leave out columns about an address or a number", () => {
    expect(
      fieldsOf(
        "email email_verified:boolean email_sent_at:date email_hash phone_type fax user_name company_name ip_address order_state country",
      ),
    ).toEqual({ emails: ["email"] });
  });

  it("take a name as full, first or last by the other columns", () => {
    expect(fieldsOf("name email")).toEqual({ full_name: ["name"], emails: ["email"] });
    expect(fieldsOf("name vorname")).toEqual({ first_name: ["vorname"], last_name: ["name"] });
    expect(fieldsOf("name first_name last_name")).toEqual({
      first_name: ["first_name"],
      last_name: ["last_name"],
    });
  });

  it("take one address of several, the most complete one", () => {
    expect(fieldsOf("email shipping_city billing_street billing_city billing_zip shipping_zip")).toEqual({
      emails: ["email"],
      address_line_1: ["billing_street"],
      city: ["billing_city"],
      zipcode: ["billing_zip"],
    });
    expect(fieldsOf("email address")).toEqual({ emails: ["email"], full_address: ["address"] });
    expect(fieldsOf("email state")).toEqual({ emails: ["email"] });
  });

  it("take the column with the field's exact name, and give a reason for every other one", () => {
    const columns =
      "id email first_name last_name fullname region state city zip apt home_city tags:jsonb ckey";
    const { fields, skipped } = proposeFields(table(columns.split(" ")));
    expect(fields.state).toEqual(["state"]);
    expect(skipped).toEqual([
      { column: "tags", reason: "jsonb, would be sent as JSON text" },
      { column: "fullname", reason: "first_name, last_name are enough" },
      { column: "region", reason: "state takes one column, here state" },
      { column: "home_city", reason: "city takes one column, here city" },
      { column: "id", reason: "no matching field" },
      { column: "ckey", reason: "no matching field" },
    ]);
  });

  it("name what would be sent as garbage", () => {
    const columns =
      "emails:jsonb phones:text[] city:text[] zip:integer phone:bigint state:status_kind street tags:jsonb[] email".split(
        " ",
      );
    expect(proposeFields(table(columns))).toEqual({
      fields: { emails: ["email"], phones: ["phones"], address_line_1: ["street"] },
      skipped: [
        { column: "emails", reason: "jsonb, would be sent as JSON text" },
        { column: "city", reason: "text[], a list, but the field takes one value" },
        { column: "zip", reason: "integer, loses leading zeros" },
        { column: "phone", reason: "bigint, loses leading zeros" },
        { column: "state", reason: "status_kind, an enum" },
        { column: "tags", reason: "jsonb[], would be sent as JSON text" },
      ],
    });
  });
});

describe("the key", () => {
  const columns = ["tenant:integer", "no:integer", "email", "customer_id:uuid"];

  it("is the primary key, with all of its columns", () => {
    const uniqueKeys = [unique(["tenant", "no"], "primary"), unique(["email"], "filled")];
    expect(proposeKey(table(columns, { uniqueKeys }))).toEqual({
      value: ["tenant", "no"],
      reason: "primary key",
    });
  });

  it("else a unique index, preferably without NULLs", () => {
    const uniqueKeys = [unique(["email"], "nullable"), unique(["tenant", "no"], "filled")];
    expect(proposeKey(table(columns, { uniqueKeys }))?.value).toEqual(["tenant", "no"]);
    expect(proposeKey(table(columns, { uniqueKeys: [unique(["email"], "nullable")] }))).toEqual({
      value: ["email"],
      reason: "unique, but rows with NULL are rejected",
    });
  });

  it("else a column named like one, not known to be unique", () => {
    expect(proposeKey(table(["account_id:integer", "customer_id:uuid"]))).toEqual({
      value: ["customer_id"],
      reason: "not known to be unique",
    });
    expect(proposeKey(table(["name", "email"]))).toBeNull();
  });
});

it("tables of people come first, copies last, and others not at all", () => {
  const found = findPeople([
    named("products", "id name state price:integer"),
    named("customers_bak", "first_name last_name email phone"),
    named("customers", "first_name last_name email phone"),
    named("orders", "id customer_id status street city"),
    named("newsletter", "email"),
  ]);
  expect(found.map(({ name }) => name)).toEqual(["customers", "customers_bak", "newsletter"]);
});
