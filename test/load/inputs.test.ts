import { useContext } from "./postgres-context.ts";
import { describeInputs, describeNormalize } from "./suite/inputs.ts";

const context = useContext();

describeInputs(context);
describeNormalize(context);
