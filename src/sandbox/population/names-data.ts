/**
 * First and last names by origin and generation. Comma-separated; `native=latin` gives the spelling for e-mail
 * addresses where removing accents isn't enough. No name holds a quote or a backslash (a test says so).
 */

/** Names of one origin. */
export interface Origin {
  readonly name: string;
  /** Share of families, in thousandths. */
  readonly weight: number;
  /** First names by generation: grandparents, parents, children. */
  readonly men: readonly [string, string, string];
  readonly women: readonly [string, string, string];
  readonly last: string;
  /** The family name comes first in `full_name`, with or without a space. */
  readonly familyFirst?: "spaced" | "joined";
}

/** Every origin of the population; weights add up to 1,000. */
export const ORIGINS: readonly Origin[] = [
  {
    name: "english",
    weight: 520,
    men: [
      "James,Robert,John,William,Richard,Donald,Charles,Thomas,George,Kenneth,Harold,Walter,Raymond,Eugene,Ralph,Gerald,Howard,Albert,Arthur,Leonard,Earl,Clarence,Herbert,Melvin",
      "Michael,David,Mark,Steven,Jeffrey,Scott,Timothy,Gregory,Brian,Kevin,Gary,Douglas,Todd,Craig,Keith,Randy,Darryl,Terrence,Wayne,Russell,Curtis,Dwayne,Reginald,Jerome",
      "Christopher,Joshua,Matthew,Tyler,Brandon,Justin,Ryan,Austin,Jordan,Ethan,Logan,Mason,Aiden,Caleb,Dylan,Hunter,Malik,DeShawn,Jaylen,Connor,Cody,Trevor,Blake,Jayden",
    ],
    women: [
      "Mary,Barbara,Patricia,Betty,Dorothy,Shirley,Helen,Margaret,Ruth,Virginia,Doris,Frances,Marjorie,Evelyn,Lois,Norma,Beverly,Joan,Gladys,Thelma,Eleanor,Jean,Bernice,Mary Ann",
      "Jennifer,Lisa,Kimberly,Michelle,Amy,Angela,Melissa,Karen,Susan,Donna,Cynthia,Tammy,Tracy,Denise,Rhonda,Stephanie,Tonya,Yolanda,Latoya,Dawn,Heather,Stacy,Wendy,Jo Anne",
      "Ashley,Jessica,Brittany,Samantha,Taylor,Emily,Madison,Alexis,Hannah,Olivia,Chloe,Destiny,Jasmine,Imani,Kayla,Megan,Abigail,Zoe,Savannah,Brooke,Paige,Mackenzie,Aaliyah,Renée",
    ],
    last: "Smith,Johnson,Williams,Brown,Jones,Davis,Miller,Wilson,Moore,Taylor,Anderson,Thomas,Jackson,White,Harris,Martin,Thompson,Robinson,Clark,Lewis,Lee,Walker,Hall,Allen,Young,King,Wright,Hill,Scott,Green,Adams,Baker,Nelson,Carter,Mitchell,Roberts,Turner,Phillips,Campbell,Parker,Evans,Edwards,Collins,Stewart,Morris,Rogers,Reed,Cook,Bell,Cooper,Richardson,Wood,Watson,Brooks,Bennett,Gray,James,Hughes,Price,Long,Foster,Sanders,Ross,Powell,Sullivan,Russell,Jenkins,Perry,Butler,Barnes,Fisher,Henderson,Coleman,Simmons,Patterson,Jordan,Reynolds,Hamilton,Graham,Wallace,Woods,West,Cole,Hayes,Gibson,Ellis,Stevens,Murray,Ford,Marshall,Owens,Harrison,Freeman,Wells,Webb,Simpson,Tucker,Porter,Hunter,Hicks,Crawford,Boyd,Mason,Warren,Dixon,Burns,Gordon,Shaw,Holmes,Rice,Robertson,Black,Daniels,Palmer,Mills,Grant,Knight,Ferguson,Stone,Hawkins,Dunn,Perkins,Hudson,Spencer,Gardner,Payne,Pierce,Berry,Matthews,Arnold,Wagner,Willis,Ray,Watkins,Olson,Carroll,Duncan,Snyder,Hart,Cunningham,Bradley,Lane,Andrews,Harper,Fox,Riley,Armstrong,Carpenter,Weaver,Greene,Lawrence,Elliott,Chavis,Kelley,Franklin,Lawson,Smith-Jones,Washington,Jefferson,Booker",
  },
  {
    name: "spanish",
    weight: 160,
    men: [
      "José,Juan,Manuel,Jesús,Francisco,Ramón,Pedro,Raúl,Rubén,Ángel,Salvador,Ignacio,Rogelio,Joaquín",
      "Carlos,Luis,Miguel,Jorge,Ricardo,Héctor,Sergio,Andrés,César,Óscar,Iván,Adrián,Martín,Joel",
      "Diego,Alejandro,Sebastián,Mateo,Santiago,Nicolás,Julián,Damián,Tomás,Emiliano,Ángel,Iker,Axel,Leonel",
    ],
    women: [
      "María,Guadalupe,Juana,Rosa,Josefina,Carmen,Teresa,Consuelo,Dolores,Amparo,Graciela,Ofelia,Socorro,María Elena",
      "Patricia,Verónica,Leticia,Claudia,Sandra,Mónica,Alejandra,Adriana,Rocío,Begoña,Norma,Yesenia,Lorena,Pilar",
      "Sofía,Valentina,Camila,Ximena,Lucía,Daniela,Andrea,Natalia,Paola,Zoé,Renata,Fernanda,Itzel,Noemí",
    ],
    last: "García,Rodríguez,Martínez,Hernández,López,González,Pérez,Sánchez,Ramírez,Torres,Flores,Rivera,Gómez,Díaz,Cruz,Reyes,Morales,Gutiérrez,Ortiz,Ramos,Ruiz,Álvarez,Castillo,Jiménez,Vásquez,Moreno,Romero,Medina,Peña,Muñoz,Núñez,Ibáñez,de la Cruz,del Río,De León,García-López,Ordóñez,Zúñiga,Yáñez,Treviño",
  },
  {
    name: "irish",
    weight: 60,
    men: [
      "Patrick,Francis,Daniel,Eugene,Edward,Joseph,Vincent,Cornelius",
      "Kevin,Sean,Brendan,Dennis,Neil,Colin,Kieran,Declan",
      "Liam,Aidan,Seán,Rory,Finn,Cillian,Oisín,Tadhg",
    ],
    women: [
      "Kathleen,Bridget,Nora,Agnes,Rosemary,Maureen,Eileen,Rita",
      "Colleen,Erin,Sheila,Deirdre,Maura,Noreen,Sinéad,Fiona",
      "Caitlin,Aoife,Siobhán,Niamh,Róisín,Maeve,Saoirse,Ciara",
    ],
    last: "O'Brien,O'Connor,O'Neill,O'Reilly,O’Sullivan,Murphy,Kelly,Byrne,Ryan,Doyle,McCarthy,Gallagher,Kennedy,Lynch,Quinn,McLaughlin,Fitzgerald,MacDonald,Ó Súilleabháin,Ní Chonaill",
  },
  {
    name: "german",
    weight: 60,
    men: [
      "Günther,Horst,Werner,Heinz,Karl,Otto,Ernst,Jürgen",
      "Jörg,Andreas,Thomas,Björn,Sören,Lars,Rainer,Uwe",
      "Lukas,Jonas,Finn,Leon,Niklas,Max,Felix,Jannik",
    ],
    women: [
      "Gerda,Ursula,Hildegard,Ingrid,Käthe,Helga,Bärbel,Gisela",
      "Sabine,Petra,Birgit,Anja,Heike,Silke,Åsa,Anne-Kathrin",
      "Lena,Mia,Hannah,Leonie,Johanna,Clara,Greta,Zoë",
    ],
    last: "Müller,Schmidt,Schneider,Weber,Meyer,Becker,Schäfer,Köhler,Krüger,Größer=Groesser,Weiß=Weiss,Jäger,Böhm,von Berg,Vogel,Lindström,Sørensen=Sorensen,Østergaard=Ostergaard,Þorsteinsson=Thorsteinsson,Van der Berg",
  },
  {
    name: "italian",
    weight: 40,
    men: [
      "Anthony,Salvatore,Dominic,Carmine,Rocco,Angelo",
      "Vincent,Marco,Nick,Paolo,Joseph,Gianni",
      "Nicolò,Luca,Giovanni,Matteo,Leonardo,Dante",
    ],
    women: [
      "Concetta,Rose,Angelina,Filomena,Carmela,Antoinette",
      "Gina,Maria,Theresa,Francesca,Donna,Lucia",
      "Gianna,Isabella,Giulia,Alessia,Mia,Noemi",
    ],
    last: "Rossi,Russo,Esposito,Romano,Colombo,Ricci,Marino,Greco,De Luca,D'Angelo,D'Amico,Lo Presti,Niccolò,Bianchi,Costa,Giordano",
  },
  {
    name: "french",
    weight: 30,
    men: [
      "Émile,René,André,Marcel,Gérard,Jean-Baptiste",
      "Jean-Pierre,François,Benoît,Stéphane,Hervé,Éric",
      "Théo,Rémi,Loïc,Maël,Noé,Étienne",
    ],
    women: [
      "Thérèse,Marguerite,Hélène,Geneviève,Yvette,Odile",
      "Chantal,Véronique,Valérie,Sylvie,Céline,Françoise",
      "Chloé,Léa,Maëlys,Zoé,Anaïs,Inès",
    ],
    last: "Lefèvre,Tremblay,Côté,Bélanger,Gagné,Lévesque,Beaulieu,Boudreaux,Thibodeaux,Hébert,L’Heureux,Saint-Pierre,Œuvrard=Oeuvrard,d'Aubigné",
  },
  {
    name: "polish",
    weight: 30,
    men: [
      "Stanisław=Stanislaw,Józef,Tadeusz,Zbigniew",
      "Paweł=Pawel,Krzysztof,Łukasz=Lukasz,Jiří",
      "Jakub,Mikołaj=Mikolaj,Ondřej,Štěpán",
    ],
    women: [
      "Zofia,Jadwiga,Bożena,Halina",
      "Małgorzata=Malgorzata,Agnieszka,Kateřina,Ewa",
      "Zuzanna,Julia,Maja,Eliška",
    ],
    last: "Kowalski,Nowak,Wiśniewski,Wójcik,Kamiński,Zieliński,Dąbrowski,Łukasiewicz=Lukasiewicz,Dvořák,Novák,Horváth,Szabó,Kovačević,Popović",
  },
  {
    name: "indian",
    weight: 30,
    men: ["Ramesh,Suresh,Mohan,Krishna", "Rajesh,Sanjay,Anil,Vikram", "Arjun,Rohan,Aarav,Nikhil"],
    women: ["Lakshmi,Kamala,Sarla,Indira", "Sunita,Priya,Anjali,Deepa", "Ananya,Diya,Ishani,Kavya"],
    last: "Patel,Singh,Kumar,Sharma,Gupta,Reddy,Nair,Iyer,Chaudhary,Rao,Venkataraman,Mukherjee",
  },
  {
    name: "vietnamese",
    weight: 15,
    men: ["Văn Hùng,Minh,Quang", "Đức=Duc,Tuấn,Thắng", "Huy,Khôi,Nam"],
    women: ["Thị Mai,Lan,Hồng", "Thu Hà,Hương,Ngọc", "Linh,Trang,Vy"],
    last: "Nguyễn,Trần,Lê,Phạm,Huỳnh,Võ,Đặng=Dang,Bùi,Đỗ=Do,Ngô",
    familyFirst: "spaced",
  },
  {
    name: "chinese",
    weight: 15,
    men: [
      "建国=jianguo,国强=guoqiang,志明=zhiming",
      "伟=wei,军=jun,磊=lei",
      "浩然=haoran,子轩=zixuan,𠮷明=jiming",
    ],
    women: [
      "秀英=xiuying,桂兰=guilan,玉珍=yuzhen",
      "丽=li,敏=min,静=jing",
      "欣怡=xinyi,雨桐=yutong,诗涵=shihan",
    ],
    last: "王=wang,李=li,张=zhang,刘=liu,陈=chen,杨=yang,黄=huang,赵=zhao,欧阳=ouyang,司马=sima",
    familyFirst: "joined",
  },
  {
    name: "japanese",
    weight: 8,
    men: ["茂=shigeru,清=kiyoshi", "健一=kenichi,誠=makoto", "翔太=shota,蓮=ren"],
    women: ["和子=kazuko,幸子=sachiko", "由美子=yumiko,恵子=keiko", "さくら=sakura,陽菜=hina"],
    last: "佐藤=sato,鈴木=suzuki,高橋=takahashi,田中=tanaka,渡辺=watanabe,髙﨑=takasaki",
    familyFirst: "joined",
  },
  {
    name: "korean",
    weight: 8,
    men: ["영수=youngsoo,광수=kwangsoo", "상훈=sanghoon,성호=sungho", "민준=minjun,서준=seojun"],
    women: ["영자=youngja,순자=soonja", "미경=mikyung,은주=eunju", "서연=seoyeon,지우=jiwoo"],
    last: "김=kim,이=lee,박=park,최=choi,정=jung,남궁=namgung",
    familyFirst: "joined",
  },
  {
    name: "cyrillic",
    weight: 12,
    men: ["Борис=boris,Виктор=viktor", "Сергей=sergei,Андрей=andrei", "Дмитрий=dmitri,Максим=maksim"],
    women: [
      "Галина=galina,Людмила=lyudmila",
      "Светлана=svetlana,Ольга=olga",
      "Анастасия=anastasia,Дарья=daria",
    ],
    last: "Шевченко=shevchenko,Коваленко=kovalenko,Бондарчук=bondarchuk,Ткач=tkach,Мороз=moroz,Лысенко=lysenko",
  },
  {
    name: "arabic",
    weight: 12,
    men: ["محمود=mahmoud,إبراهيم=ibrahim", "خالد=khaled,عمر=omar", "يوسف=youssef,كريم=karim"],
    women: ["فاطمة=fatima,زينب=zainab", "ليلى=layla,سميرة=samira", "نور=nour,مريم=maryam"],
    last: "الحسن=alhassan,حداد=haddad,منصور=mansour,خوري=khoury,النجار=alnajjar,عبد الله=abdallah",
  },
];
