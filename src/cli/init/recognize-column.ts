import type { InputField } from "../../config/config.ts";

/** A field, or a word that means one of several fields: a person's name or an address, whole or in part. */
type Meaning = InputField | "any_name" | "any_address";

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/u));

/**
 * Words of column names by meaning, joined, in lower case, without accents: English first, then German, French, Spanish,
 * Italian, Portuguese, Dutch, Scandinavian, Polish and others.
 */
const wordsByMeaning: Readonly<Partial<Record<Meaning, ReadonlySet<string>>>> = {
  service_pid: words("servicepid"),
  first_name: words(`first firstname fname given givenname forename christianname
    vorname rufname prenom primernombre primeironome voornaam roepnaam fornavn fornamn etunimi imie jmeno keresztnev`),
  middle_name: words(`middle middlename mname middleinitial middlenames
    zweitername zweitervorname deuxiemeprenom segundonombre secondonome nomedomeio mellemnavn mellannamn`),
  last_name: words(`last lastname lname surname sname family familyname secondname
    nachname familienname zuname nomdefamille nomfamille apellido apellidos primerapellido cognome sobrenome apelido ultimonome
    achternaam familienaam efternavn etternavn efternamn sukunimi nazwisko prijmeni vezeteknev soyad soyadi`),
  full_name: words(`fullname displayname personname wholename namefull
    vollername vollstaendigername gesamtname nomcomplet nombrecompleto nomecompleto volledigenaam`),
  any_name: words("name names nom nombre nome navn namn naam nimi"),
  name_suffix: words("suffix namesuffix generationalsuffix namenszusatz"),
  emails: words(`email mail emailaddress mailaddress emailaddr emailadresse mailadresse
    courriel adresseemail adressemail adressecourriel correo correoelectronico correoe direccioncorreo
    indirizzoemail indirizzomail postaelettronica emailadres epost epostadresse sahkoposti adresemail`),
  phones: words(`phone phones phonenumber phonenum phoneno tel telephone telephonenumber telno telnr telnumber
    mobile mobilephone mobilenumber mobileno mobil cell cellphone cellnumber cellular landline
    telefon telefonnummer telefonnr mobilnummer mobiltelefon mobilfunk handy handynummer handynr rufnummer festnetz
    portable telephoneportable numerotelephone telefono movil celular telefonomovil telefonofijo cellulare numerotelefono
    telefone telemovel telefoon telefoonnummer mobiel gsm puhelin telefonkomorkowy`),
  linkedin_url: words(
    "linkedin linkedinurl linkedinprofile linkedinprofileurl linkedinlink linkedinuri urllinkedin",
  ),
  full_address: words(`fulladdress completeaddress addressfull formattedaddress fullpostaladdress
    vollstaendigeadresse adressecomplete direccioncompleta indirizzocompleto enderecocompleto`),
  any_address: words(
    "address addr adresse anschrift direccion indirizzo endereco adres domicilio adress adresa",
  ),
  address_line_1:
    words(`street streetaddress streetname streetline street1 address1 addressline addressline1 addr1 addrline1
    addressstreet line1 add1 strasse str strassehausnummer strasseundhausnummer strassehausnr adresse1 anschrift1
    rue voie adresserue calle direccion1 via indirizzo1 rua logradouro endereco1 straat straatnaam straathuisnummer
    gade gate gata katu katuosoite ulica utca ulice`),
  address_line_2: words(`street2 address2 addressline2 addr2 addrline2 line2 add2 apt apartment suite unit
    adresszusatz adresse2 strasse2 complement complementadresse adressecomplement direccion2 complemento indirizzo2 endereco2`),
  city: words(`city town cityname locality municipality
    ort stadt wohnort ortsname ville commune ciudad localidad poblacion municipio citta comune cidade plaats woonplaats
    stad plaatsnaam poststed miasto miejscowosc kaupunki mesto varos sehir`),
  state:
    words(`state stateprovince stateorprovince province region statecode provincecode stateabbr stateregion
    bundesland departement provincia estado uf provincie wojewodztwo lan`),
  zipcode: words(`zip zipcode zip5 zipplus postal postalcode postcode postalzip zippostal zippostalcode
    plz postleitzahl codepostal cp codigopostal cap cep codicepostale kodpocztowy kod postnummer postnr
    postinumero psc iranyitoszam postakodu`),
};

const SUBJECTS = `customer cust client contact contacts person people user member lead patient subscriber donor guest student buyer
  holder main primary prim kunde kunden kd kontakt mitglied person ansprechpartner nutzer adherent cliente clientes contacto
  usuario socio persona contatto utente klant kunder kund asiakas klient`;

const PLACES = `home house private personal work business biz office company corporate professional
  secondary second alt alternate alternative other additional billing bill invoice shipping ship delivery mailing residential
  residence permanent current legal default preferred best direct daytime day evening contact
  privat private geschaeft geschaeftlich dienstlich firma firmen buero arbeit rechnung rechnungs liefer haupt
  perso personnel pro professionnel domicile facturation livraison bureau trabajo casa oficina facturacion envio particular
  lavoro ufficio trabalho prive werk factuur`;

/** Words around a field's word that don't change its meaning, by kind of field. */
const qualifiers = {
  name: words(`${SUBJECTS} billing shipping mailing rechnung rechnungs legal`),
  contact: words(
    `${SUBJECTS} ${PLACES} e mobile mobil cell fixed number no nr num address adresse addr account 1 2 3 4 5 01 02 03`,
  ),
  address: words(`${SUBJECTS} ${PLACES} address addr adresse anschrift mail postal`),
  none: words("url link profile"),
} as const;

/** Words of tables that hold people. */
export const peopleWords =
  words(`customer customers client clients contact contacts person persons people user users member
  members lead leads patient patients subscriber subscribers donor donors prospect prospects crm
  kunde kunden kontakt kontakte person personen mitglied mitglieder nutzer adressen interessenten
  utilisateurs adherents clientes contactos personas usuarios clienti contatti persone utenti klanten klienci`);

/** Words of tables that hold copies, or events instead of people. */
export const copyWords =
  words(`bak backup old tmp temp test copy archive archived history hist log logs audit event events
  staging stage stg import raw dump sicherung alt archiv kopie`);

/** A column's meaning by its name. */
export interface Recognized {
  readonly meaning: Meaning;
  /** Other words of the name: `billing` of `billing_city`. */
  readonly qualifiers: readonly string[];
}

/** Maximum length of a field's name in words: `adresse de facturation ligne 1`. */
const MAX_WORDS = 5;

/** Splits `WorkEmail2`, `work-email_2` and `Straße` into words without accents. */
export function wordsOf(name: string): readonly string[] {
  return name
    .replaceAll("ß", "ss")
    .replaceAll(/[äöüÄÖÜ]/gu, (letter) => `${letter}e`)
    .normalize("NFD")
    .replaceAll(/\p{M}/gu, "")
    .replaceAll(/(\p{Ll}|\d)(\p{Lu})/gu, "$1 $2")
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .replaceAll(/(\p{L})(\d)/gu, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "" && !FILLERS.has(word));
}

const FILLERS = words("the of de du des der la le und and");

/** Recognizes the field that a column holds by its name; null for none. */
export function recognizeColumn(name: string): Recognized | null {
  const parts = wordsOf(name);
  for (const meaning of meanings) {
    // The longest match first: `email address` is not an address.
    for (let length = Math.min(parts.length, MAX_WORDS); length > 0; length--) {
      for (let start = 0; start + length <= parts.length; start++) {
        const others = parts.toSpliced(start, length);
        if (!wordsByMeaning[meaning]?.has(parts.slice(start, start + length).join(""))) continue;
        if (others.every((word) => allowedAround(meaning).has(word))) return { meaning, qualifiers: others };
      }
    }
  }
  return null;
}

/** All meanings, in the order of their fields in a file. The cast restores the key type that Object.keys loses. */
export const meanings = Object.keys(wordsByMeaning) as readonly Meaning[];

function allowedAround(meaning: Meaning): ReadonlySet<string> {
  if (meaning === "emails" || meaning === "phones") return qualifiers.contact;
  if (/name/u.test(meaning)) return qualifiers.name;
  if (/address|city|state|zip/u.test(meaning)) return qualifiers.address;
  return qualifiers.none;
}
