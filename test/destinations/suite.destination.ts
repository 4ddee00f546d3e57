import { describeDestination } from "../publish/destination-suite.ts";
import { openIcebergContext } from "./iceberg-context.ts";

describeDestination("Iceberg (Nessie and S3, read by pyiceberg)", openIcebergContext);
