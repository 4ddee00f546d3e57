/**
 * Cities and streets. An address line and a city encode the household that lives there (see `addresses.ts`), so the
 * sizes are exact: 128 cities, 64 street names, 4 directions, 4 kinds; a test counts them.
 */

/** `city|state|first three digits of its zip codes|area code`; no two share city and state, or the zip digits. */
export const CITIES = `
New York|NY|100|212;Brooklyn|NY|112|718;Buffalo|NY|142|716;Rochester|NY|146|585;Albany|NY|122|518;Syracuse|NY|132|315
Los Angeles|CA|900|213;San Diego|CA|921|619;San Jose|CA|951|408;San Francisco|CA|941|415;Fresno|CA|937|559;Sacramento|CA|958|916
Oakland|CA|946|510;Bakersfield|CA|933|661;Riverside|CA|925|951;Santa Ana|CA|927|714;La Cañada Flintridge|CA|910|818
Chicago|IL|606|312;Springfield|IL|627|217;Peoria|IL|616|309;Rockford|IL|611|815;Naperville|IL|605|630
Houston|TX|770|713;Dallas|TX|752|214;San Antonio|TX|782|210;Austin|TX|787|512;Fort Worth|TX|761|817;El Paso|TX|799|915
Lubbock|TX|794|806;Corpus Christi|TX|784|361;Amarillo|TX|791|432
Phoenix|AZ|850|602;Tucson|AZ|857|520;Mesa|AZ|852|480;Flagstaff|AZ|860|928
Philadelphia|PA|191|215;Pittsburgh|PA|152|412;Allentown|PA|181|610;Erie|PA|165|814;Harrisburg|PA|171|717
Jacksonville|FL|322|904;Miami|FL|331|305;Tampa|FL|336|813;Orlando|FL|328|407;Tallahassee|FL|323|850;Fort Myers|FL|339|239
Columbus|OH|432|614;Cleveland|OH|441|216;Cincinnati|OH|452|513;Toledo|OH|436|419;Akron|OH|443|330;Dayton|OH|454|937
Charlotte|NC|282|704;Raleigh|NC|276|919;Greensboro|NC|274|336;Asheville|NC|288|828
Indianapolis|IN|462|317;Fort Wayne|IN|468|260;Evansville|IN|477|812
Seattle|WA|981|206;Spokane|WA|992|509;Tacoma|WA|984|253;Olympia|WA|985|360
Denver|CO|802|303;Colorado Springs|CO|809|719;Cañon City|CO|812|970;Boulder|CO|803|720
Washington|DC|200|202;Boston|MA|021|617;Worcester|MA|016|508;Springfield|MA|011|413
Nashville|TN|372|615;Memphis|TN|381|901;Knoxville|TN|379|865;Chattanooga|TN|374|423
Detroit|MI|482|313;Grand Rapids|MI|495|616;Lansing|MI|489|517;Sault Sainte Marie|MI|497|906
Portland|OR|972|503;Eugene|OR|974|541;Portland|ME|041|207
Las Vegas|NV|891|702;Reno|NV|895|775
Louisville|KY|402|502;Lexington|KY|405|859
Baltimore|MD|212|410;Silver Spring|MD|209|301
Milwaukee|WI|532|414;Madison|WI|537|608;Green Bay|WI|543|920
Albuquerque|NM|871|505;Santa Fe|NM|875|575;Española|NM|876|506
Kansas City|MO|641|816;Saint Louis|MO|631|314;Springfield|MO|658|417
Kansas City|KS|661|913;Wichita|KS|672|316
Omaha|NE|681|402;Lincoln|NE|685|531
Atlanta|GA|303|404;Savannah|GA|314|912;Augusta|GA|309|706
Virginia Beach|VA|234|757;Richmond|VA|232|804;Arlington|VA|222|703;Roanoke|VA|240|540
Minneapolis|MN|554|612;Saint Paul|MN|551|651;Duluth|MN|558|218
New Orleans|LA|701|504;Baton Rouge|LA|708|225;Shreveport|LA|711|318
Honolulu|HI|968|808;Kāneʻohe|HI|967|809
Tulsa|OK|741|918;Oklahoma City|OK|731|405
Newark|NJ|071|973;Jersey City|NJ|073|201;Trenton|NJ|086|609
Birmingham|AL|352|205;Mobile|AL|366|251;Little Rock|AR|722|501
Salt Lake City|UT|841|801;Boise|ID|837|208;Providence|RI|029|401;Hartford|CT|061|860
`
  .trim()
  .split(/[;\n]/);

/** Sixty-four street names. */
export const STREET_NAMES = (
  "Maple,Oak,Cedar,Pine,Elm,Walnut,Chestnut,Birch,Hickory,Willow,Magnolia,Juniper,Sycamore,Poplar,Spruce,Laurel," +
  "Washington,Jefferson,Lincoln,Madison,Monroe,Jackson,Adams,Franklin,Grant,Harrison,Cleveland,Roosevelt,Wilson,Kennedy,Tyler,Polk," +
  "Main,High,Church,Mill,River,Lake,Hill,Park,Spring,Meadow,Sunset,Valley,Highland,Prospect,Railroad,Canyon," +
  "Second,Third,Fourth,Fifth,Sixth,Seventh,Eighth,Ninth,San José,Cañada,O'Farrell,Martin Luther King Jr,Peachtree,Vine,Canal,Liberty"
).split(",");

/** Four directions before a street name; the first is none. */
export const DIRECTIONS = ["", "N ", "E ", "W "] as const;

/** Four kinds of streets, as written and in full. */
export const STREET_KINDS = [
  ["St", "street"],
  ["Ave", "avenue"],
  ["Rd", "road"],
  ["Ln", "lane"],
] as const;

/** Area codes beside those of the cities, so that every phone number has room: 160 in all. */
export const MORE_AREA_CODES = (
  "646,917,347,929,323,424,628,669,747,773,872,224,847,281,832,346," +
  "469,972,682,737,267,484,724,786,754,321,561,727,386,863,980,984"
).split(",");
