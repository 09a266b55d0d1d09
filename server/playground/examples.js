// Constraints to begin with: for each kind, a name, a prompt and the text. Knows nothing else.

const ticket = {
  type: "object",
  properties: {
    summary: { type: "string", maxLength: 80 },
    product: { enum: ["billing", "search", "mobile app", "other"] },
    severity: { type: "integer", minimum: 1, maximum: 4 },
    reproducible: { type: "boolean" },
  },
  required: ["summary", "product", "severity", "reproducible"],
};

const weather = {
  type: "object",
  properties: { location: { type: "string", maxLength: 40 }, unit: { enum: ["celsius", "fahrenheit"] } },
  required: ["location", "unit"],
};

const tree = {
  type: "object",
  properties: { name: { type: "string", maxLength: 20 }, children: { type: "array", items: { $ref: "#" }, maxItems: 3 } },
  required: ["name"],
};

const written = (schema) => JSON.stringify(schema, null, 2);

const filters = `start: expr
expr: term ((" AND " | " OR ") term)*
term: "NOT "? atom
atom: FIELD ":" VALUE | "(" expr ")"
FIELD: "service" | "status" | "region"
VALUE: /"[a-z0-9]{1,12}"/`;

const arithmetic = `root ::= expr
expr ::= term (" " [-+] " " term)*
term ::= factor (" " [*/] " " factor)*
factor ::= [0-9]{1,4} | "(" expr ")"`;

export const EXAMPLES = {
  json: [
    {
      name: "Support ticket",
      prompt: "As JSON: Since this morning's update the phone app closes whenever I open my invoices. I tried it three times.",
      text: written(ticket),
    },
    { name: "Weather query", prompt: "As JSON: what is the weather in Oslo, in celsius?", text: written(weather) },
    { name: "Recursive tree", prompt: "As JSON: a small folder tree of a Python project.", text: written(tree) },
  ],
  regex: [
    {
      name: "Address and port",
      prompt: "The server forwarded the request through 10.0.4.15 on port 8443. Which proxy address was used?",
      text: String.raw`[0-9]{1,3}(\.[0-9]{1,3}){3}:[0-9]{2,5}`,
    },
    {
      name: "Date",
      prompt: "Write 4 July 1976 in ISO format.",
      text: String.raw`(19|20)\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])`,
    },
    { name: "Password, with lookaheads", prompt: "Invent a password.", text: String.raw`(?=.*[0-9])(?=.*[A-Z])[0-9A-Za-z]{10,16}` },
  ],
  choice: [
    {
      name: "Sentiment",
      prompt: "Sentiment of: The migration failed and every customer was logged out.",
      text: "POSITIVE\nNEUTRAL\nNEGATIVE",
    },
    { name: "Route", prompt: "Who should answer? “My card was charged twice.”", text: "billing\ntechnical support\nsales\nnobody" },
  ],
  grammar: [
    { name: "Search filter (Lark)", prompt: "Write a filter that finds the slow api in the US.", text: filters },
    { name: "Arithmetic (GBNF)", prompt: "Write an arithmetic expression that gives 42.", text: arithmetic },
  ],
  none: [{ name: "Question", prompt: "What is the capital of Norway?", text: "" }],
};
