import { pick } from "./hash.ts";

export interface Name {
  /** As written, composed (NFC). */
  readonly text: string;
  /** Lower-case Latin letters for e-mail addresses and profile links. */
  readonly slug: string;
}

export interface OriginNames {
  readonly men: readonly Name[];
  readonly women: readonly Name[];
  readonly last: readonly Name[];
  /** Joins the family name and the first name in `full_name`, where the family name comes first. */
  readonly familyFirst: "" | " " | null;
}

/** Origins by their share of the families in thousandths. `native=latin` gives the letters for e-mail addresses. */
const ORIGINS = [
  {
    weight: 560,
    men: "James,Robert,John,William,Richard,Charles,Thomas,George,Walter,Arthur,Michael,David,Mark,Steven,Jeffrey,Scott,Timothy,Brian,Kevin,Gary,Todd,Curtis,Reginald,Jerome,Christopher,Joshua,Matthew,Tyler,Brandon,Ryan,Jordan,Ethan,Mason,Caleb,DeShawn,Jaylen,Connor,Trevor",
    women:
      "Mary,Barbara,Patricia,Dorothy,Helen,Margaret,Ruth,Virginia,Evelyn,Mary Ann,Jennifer,Lisa,Kimberly,Michelle,Angela,Karen,Susan,Yolanda,Latoya,Heather,Jo Anne,Ashley,Jessica,Brittany,Taylor,Emily,Madison,Alexis,Hannah,Olivia,Imani,Kayla,Megan,Savannah,Aaliyah,Renée",
    last: "Smith,Johnson,Williams,Brown,Jones,Davis,Miller,Wilson,Moore,Taylor,Anderson,Thomas,Jackson,White,Harris,Martin,Thompson,Robinson,Clark,Lewis,Lee,Walker,Hall,Allen,Young,King,Wright,Scott,Green,Baker,Adams,Nelson,Hill,Campbell,Mitchell,Roberts,Carter,Phillips,Evans,Turner,Parker,Collins,Edwards,Stewart,Morris,Washington,Jefferson,Freeman,Smith-Jones,St. John",
  },
  {
    weight: 180,
    men: "José,Juan,Manuel,Jesús,Ramón,Raúl,Rubén,Ángel,Joaquín,Carlos,Luis,Miguel,Héctor,Andrés,César,Óscar,Iván,Diego,Alejandro,Sebastián,Mateo,Nicolás,Julián,Tomás",
    women:
      "María,Guadalupe,Juana,Rosa,Carmen,Consuelo,María Elena,Patricia,Verónica,Leticia,Mónica,Alejandra,Rocío,Begoña,Sofía,Valentina,Camila,Ximena,Lucía,Zoé,Noemí",
    last: "García,Rodríguez,Martínez,Hernández,López,González,Pérez,Sánchez,Ramírez,Torres,Flores,Rivera,Gómez,Díaz,Cruz,Reyes,Gutiérrez,Ortiz,Álvarez,Castillo,Jiménez,Peña,Muñoz,Núñez,de la Cruz,De León,García-López,Zúñiga",
  },
  {
    weight: 190,
    men: "Patrick,Brendan,Declan,Seán,Rory,Oisín,Günther,Karl,Jürgen,Björn,Sören,Lukas,Émile,René,François,Loïc,Nicolò,Giovanni,Stanisław=Stanislaw,Łukasz=Lukasz,Štěpán,Rajesh,Arjun",
    women:
      "Bridget,Nora,Colleen,Sinéad,Siobhán,Maeve,Ursula,Käthe,Bärbel,Åsa,Anne-Kathrin,Greta,Zoë,Thérèse,Hélène,Chloé,Giulia,Concetta,Małgorzata=Malgorzata,Bożena,Eliška,Lakshmi,Priya",
    last: "O'Brien,O'Connor,O'Neill,O’Sullivan,Murphy,McCarthy,MacDonald,Ó Súilleabháin,Müller,Schmidt,Größer=Groesser,Weiß=Weiss,von Berg,Sørensen=Sorensen,Þorsteinsson=Thorsteinsson,Van der Berg,Lefèvre,L’Heureux,Œuvrard=Oeuvrard,d'Aubigné,Rossi,D'Angelo,De Luca,Kowalski,Dąbrowski,Dvořák,Patel,Singh,Venkataraman",
  },
  {
    weight: 15,
    men: "Văn Hùng,Minh,Đức=Duc,Tuấn,Khôi",
    women: "Thị Mai,Lan,Hồng,Hương,Linh",
    last: "Nguyễn,Trần,Lê,Phạm,Đặng=Dang,Đỗ=Do",
    familyFirst: " ",
  },
  {
    weight: 20,
    men: "建国=jianguo,伟=wei,浩然=haoran,𠮷明=jiming,健一=kenichi,翔太=shota",
    women: "秀英=xiuying,静=jing,欣怡=xinyi,和子=kazuko,さくら=sakura,陽菜=hina",
    last: "王=wang,李=li,张=zhang,陈=chen,欧阳=ouyang,佐藤=sato,鈴木=suzuki,髙﨑=takasaki",
    familyFirst: "",
  },
  {
    weight: 8,
    men: "영수=youngsoo,상훈=sanghoon,민준=minjun",
    women: "영자=youngja,미경=mikyung,서연=seoyeon",
    last: "김=kim,이=lee,박=park,최=choi,남궁=namgung",
    familyFirst: "",
  },
  {
    weight: 12,
    men: "Борис=boris,Сергей=sergei,Дмитрий=dmitri",
    women: "Галина=galina,Светлана=svetlana,Дарья=daria",
    last: "Шевченко=shevchenko,Коваленко=kovalenko,Ткач=tkach,Мороз=moroz",
  },
  {
    weight: 15,
    men: "محمود=mahmoud,خالد=khaled,يوسف=youssef",
    women: "فاطمة=fatima,ليلى=layla,مريم=maryam",
    last: "الحسن=alhassan,حداد=haddad,منصور=mansour,عبد الله=abdallah",
  },
] as const;

function readNames(list: string): readonly Name[] {
  return list.split(",").map((entry) => {
    const [native = "", latin = native] = entry.split("=");
    const slug = latin
      .normalize("NFD")
      .toLowerCase()
      .replace(/[^a-z]/g, "");
    return { text: native.normalize("NFC"), slug };
  });
}

/** One entry per thousandth of the families. */
const byThousandth: readonly OriginNames[] = ORIGINS.flatMap((origin) => {
  const { weight, men, women, last } = origin;
  const familyFirst = "familyFirst" in origin ? origin.familyFirst : null;
  const names = { men: readNames(men), women: readNames(women), last: readNames(last), familyFirst };
  return Array.from({ length: weight }, () => names);
});

/** Names of the origin that a hash selects. */
export function originOf(bits: number): OriginNames {
  return pick(byThousandth, bits);
}

/** Normalizes a name for comparison: no case, accents, spaces or punctuation. */
export function comparableName(text: string): string {
  return text
    .normalize("NFKD")
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();
}
