/** Words for companies, and the codes of their industries. */

/** `industry|NAICS code|NAICS description|SIC code|SIC description|words that end a company's name` */
export const INDUSTRIES = [
  "Hospital & Health Care|622110|General Medical and Surgical Hospitals|8062|General Medical and Surgical Hospitals|Health,Medical Center,Clinics",
  "Information Technology and Services|541512|Computer Systems Design Services|7373|Computer Integrated Systems Design|Systems,Technologies,Digital",
  "Computer Software|513210|Software Publishers|7372|Prepackaged Software|Software,Labs,Cloud",
  "Construction|236220|Commercial and Institutional Building Construction|1542|General Contractors-Nonresidential Buildings|Construction,Builders,Contractors",
  "Retail|455211|Warehouse Clubs and Supercenters|5399|Miscellaneous General Merchandise Stores|Stores,Market,Outfitters",
  "Banking|522110|Commercial Banking|6022|State Commercial Banks|Bank,Trust,Savings",
  "Insurance|524210|Insurance Agencies and Brokerages|6411|Insurance Agents, Brokers and Service|Insurance,Assurance,Mutual",
  "Higher Education|611310|Colleges, Universities, and Professional Schools|8221|Colleges, Universities, and Professional Schools|University,College,Institute",
  "Primary/Secondary Education|611110|Elementary and Secondary Schools|8211|Elementary and Secondary Schools|Public Schools,Academy,School District",
  "Government Administration|921190|Other General Government Support|9199|General Government, Not Elsewhere Classified|County,Department of Revenue,City Council",
  "Restaurants|722511|Full-Service Restaurants|5812|Eating Places|Kitchen,Grill,Café",
  "Logistics and Supply Chain|484121|General Freight Trucking, Long-Distance, Truckload|4213|Trucking, Except Local|Logistics,Freight,Transport",
  "Automotive|336111|Automobile Manufacturing|3711|Motor Vehicles and Passenger Car Bodies|Motors,Automotive,Auto Parts",
  "Real Estate|531210|Offices of Real Estate Agents and Brokers|6531|Real Estate Agents and Managers|Realty,Properties,Homes",
  "Law Practice|541110|Offices of Lawyers|8111|Legal Services|& Partners LLP,Law Group,Legal",
  "Accounting|541211|Offices of Certified Public Accountants|8721|Accounting, Auditing, and Bookkeeping Services|& Co. CPAs,Advisors,Accounting",
  "Marketing and Advertising|541810|Advertising Agencies|7311|Advertising Agencies|Media,Creative,Agency",
  "Oil & Energy|211120|Crude Petroleum Extraction|1311|Crude Petroleum and Natural Gas|Energy,Petroleum,Resources",
  "Telecommunications|517111|Wired Telecommunications Carriers|4813|Telephone Communications|Communications,Telecom,Wireless",
  "Pharmaceuticals|325412|Pharmaceutical Preparation Manufacturing|2834|Pharmaceutical Preparations|Pharma,Biosciences,Therapeutics",
  "Food Production|311999|All Other Miscellaneous Food Manufacturing|2099|Food Preparations, Not Elsewhere Classified|Foods,Farms,Bakery",
  "Nonprofit Organization Management|813319|Other Social Advocacy Organizations|8399|Social Services, Not Elsewhere Classified|Foundation,Alliance,Relief",
  "Staffing and Recruiting|561320|Temporary Help Services|7363|Help Supply Services|Staffing,Talent,Workforce",
  "Mechanical or Industrial Engineering|333248|All Other Industrial Machinery Manufacturing|3559|Special Industry Machinery|Industries,Machine Works,Engineering",
] as const;

/** Words that begin a company's name. */
export const COMPANY_WORDS =
  "Northwind,Summit,Cascade,Blue Ridge,Keystone,Pinnacle,Lakeside,Redwood,Evergreen,Harbor,Beacon,Granite,Silver Creek,Prairie,Sterling,Liberty,Pacific Crest,Great Lakes,Lone Star,Bayou,Copper Canyon,Piedmont,Tidewater,Golden Gate,High Plains,Old Dominion,Peachtree,Sunbelt,Rushmore,Cumberland,Allegheny,Cimarron,São Gabriel,Nørrebro,Zürcher,Crème".split(
    ",",
  );

/** `department: title=standard title=seniority`, from the first job on. */
export const LADDERS = [
  "sales: Sales Associate=sales associate=entry; Account Executive=account executive=senior; Regional Sales Manager=sales manager=manager; Director of Sales=sales director=director; VP Sales=vice president of sales=vp; Chief Revenue Officer=chief revenue officer=cxo",
  "engineering: Software Engineer I=software engineer=entry; Sr. Software Engineer=senior software engineer=senior; Engineering Manager=engineering manager=manager; Director, Platform Engineering=engineering director=director; VP of Engineering=vice president of engineering=vp; CTO=chief technology officer=cxo",
  "finance: Staff Accountant=accountant=entry; Senior Financial Analyst=senior financial analyst=senior; Finance Manager=finance manager=manager; Controller=controller=director; VP Finance=vice president of finance=vp; CFO=chief financial officer=cxo",
  "health: Medical Assistant=medical assistant=entry; Registered Nurse, ICU=registered nurse=senior; Nurse Manager=nurse manager=manager; Director of Nursing=nursing director=director; Chief Nursing Officer=chief nursing officer=cxo; Physician – Internal Medicine=physician=senior",
  "education: Substitute Teacher=teacher=entry; 5th Grade Teacher=teacher=senior; Assistant Principal=assistant principal=manager; Principal=principal=director; Superintendent=superintendent=cxo; Associate Professor=professor=senior",
  "operations: Warehouse Associate=warehouse associate=entry; Shift Lead=team lead=senior; Operations Manager=operations manager=manager; Plant Director=operations director=director; VP Supply Chain=vice president of supply chain=vp; COO=chief operating officer=cxo",
  "marketing: Marketing Coordinator=marketing coordinator=entry; Content Strategist=content strategist=senior; Brand Manager=brand manager=manager; Director of Demand Gen=marketing director=director; VP Marketing=vice president of marketing=vp; CMO=chief marketing officer=cxo",
  "human resources: HR Assistant=human resources assistant=entry; Recruiter=recruiter=senior; HR Business Partner=human resources manager=manager; Director of People Ops=human resources director=director; VP People=vice president of human resources=vp; CHRO=chief human resources officer=cxo",
  "legal: Paralegal=paralegal=entry; Associate Attorney=attorney=senior; Counsel=counsel=manager; Assistant General Counsel=legal director=director; Partner=partner=owner; General Counsel=general counsel=cxo",
  "trades: Apprentice Electrician=electrician=entry; Journeyman Electrician=electrician=senior; Foreman=foreman=manager; Project Superintendent=superintendent=director; Owner/Operator=owner=owner; HVAC Technician=hvac technician=senior",
  "hospitality: Server=server=entry; Line Cook=cook=entry; Sous-Chef=chef=senior; Maître d’=host=senior; General Manager=general manager=manager; Executive Chef=executive chef=director",
  "design: Graphic Designer=graphic designer=entry; Sr. UX Designer=user experience designer=senior; Design Lead=design manager=manager; Head of Design=design director=director; Créative Director=creative director=director; Chief Design Officer=chief design officer=cxo",
] as const;

/** Titles as some people write them; every one is a trap for somebody's parser. */
export const ODD_TITLES = [
  "🚀 Growth Hacker 🚀",
  'Full-Stack "Ninja"',
  "C++ / C# Developer\\Architect",
  "Mom of 3 👩‍👩‍👧‍👦 | Realtor®",
  "Ingénieur d'études",
  "営業部長 (Sales)",
  "Owner,\tSmith & Sons",
  "Nurse — nights\nand weekends",
  "مدير تسويق",
  "  Consultant  ",
] as const;
