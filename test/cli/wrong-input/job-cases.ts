// Jobs with a wrong option, or with options that contradict each other.

import type { WrongInput } from "./case.ts";

const sampleTables = (table: object) => [{ name: "user", rows: 50, dim: 4, ...table }];

export const jobCases: readonly WrongInput[] = [
  {
    title: "an option with a small letter for a large one",
    set: { "data.batchSize": undefined, "data.batchsize": 20 },
    says: ["job.json: Expected no option `data.batchsize`: did you mean `batchSize`?"],
  },
  {
    title: "a misspelled option",
    set: { "checkpoint.everyStep": 10 },
    says: ["job.json: Expected no option `checkpoint.everyStep`: did you mean `everySteps`?"],
  },
  {
    title: "a misspelled section",
    set: { optimiser: { dense: { kind: "adam" } } },
    says: ["job.json: Expected no option `optimiser`: did you mean `optimizer`?"],
  },
  {
    title: "an option that there is nowhere",
    set: { colour: "red" },
    says: ["job.json: Expected no option `colour`: there is none of that name"],
  },
  {
    title: "a number as text",
    set: { seed: "7" },
    says: ["job.json: Expected `seed` to be a number, got `7` (string)"],
  },
  {
    title: "a negative seed",
    set: { seed: -1 },
    says: ["job.json: Expected `seed` to be a number >= 0, got `-1` (number)"],
  },
  {
    title: "a seed with a fraction",
    set: { seed: 1.5 },
    says: ["job.json: Expected `seed` to be an integer, got `1.5` (number)"],
  },
  {
    title: "a batch of nothing",
    set: { "data.batchSize": 0 },
    says: ["job.json: Expected `data.batchSize` to be a number >= 1, got `0` (number)"],
  },
  {
    title: "no data",
    set: { data: undefined },
    says: ["job.json: Expected `data` to be an object, got nothing"],
  },
  {
    title: "no model",
    set: { model: undefined },
    says: ["job.json: Expected `model` to be an object, got nothing"],
  },
  {
    title: "transforms in a circle",
    set: {
      "data.transforms": [
        { op: "log", input: "b", output: "a" },
        { op: "scale", input: "a", output: "b", over: 2 },
      ],
    },
    says: [
      "job.json: Expected `data.transforms[0].input` to be no output that is made of the transform itself (a from b from a), got `b` (string)",
    ],
  },
  {
    title: "a transform of a column that the file lacks",
    set: { "data.transforms": [{ op: "log", input: "prize", output: "a" }] },
    says: [
      "`data.transforms` names the column `prize`, which clicks.csv does not have; it has `clicked`, `price`, `user`, `item`; did you mean `price`?",
    ],
  },
  {
    title: "a vocabulary that is not there",
    set: {
      "data.transforms": [{ op: "mapId", input: "user", output: "a", vocabulary: "users.txt" }],
    },
    says: [/^Cannot use the vocabulary users\.txt: ENOENT/],
  },
  {
    title: "an unknown kind of data",
    set: { "data.kind": "parquett" },
    says: [
      'job.json: Expected `data.kind` to be one of "arrow", "criteo-tsv", "csv", "jsonl", "parquet", "synthetic", got `parquett` (string); did you mean `parquet`?',
    ],
  },
  {
    title: "an unknown kind of model",
    set: { "model.kind": "dlmr" },
    says: [
      'job.json: Expected `model.kind` to be one of "dlrm", "lr", "fm", "wideAndDeep", "deepFm", "dcnV2", "gdcn", "autoInt", "xDeepFm", "maskNet", "finalMlp", "finalNet", "din", "bst", "wukong", "sharedBottom", "mmoe", "ple", "esmm", "custom", got `dlmr` (string); did you mean `dlrm`?',
    ],
  },
  {
    title: "an unknown optimizer",
    set: { optimizer: { sparse: { kind: "rowwiseAdagrad" } } },
    says: [
      'job.json: Expected `optimizer.sparse.kind` to be one of "sgd", "adagrad", "rowWiseAdagrad", "adam", "partialRowWiseAdam", "lamb", "partialRowWiseLamb", "ftrl", got `rowwiseAdagrad` (string); did you mean `rowWiseAdagrad`?',
    ],
  },
  {
    title: "an optimizer's option of another optimizer",
    set: { optimizer: { dense: { kind: "sgd", beta1: 0.9 } } },
    says: [
      "job.json: Expected no option `optimizer.dense.beta1`: there is none of that name; the options here are `kind`, `learningRate`, `momentum`, `schedule`, `clip`, `ema`",
    ],
  },
  {
    title: "rows clipped by the norm of all of them",
    set: { optimizer: { sparse: { kind: "sgd", clip: { norm: 1 } } } },
    says: [
      "job.json: Expected `optimizer.sparse.clip.value` to be a number, got nothing",
      "job.json: Expected no option `optimizer.sparse.clip.norm`: there is none of that name; the options here are `value`",
    ],
  },
  {
    title: "rows clipped to nothing",
    set: { optimizer: { sparse: { kind: "ftrl", clip: { value: 0 } } } },
    says: ["job.json: Expected `optimizer.sparse.clip.value` to be a number > 0, got `0` (number)"],
  },
  {
    title: "a learning rate of zero",
    set: { optimizer: { dense: { kind: "sgd", learningRate: 0 } } },
    says: [
      "job.json: Expected `optimizer.dense.learningRate` to be a number > 0, got `0` (number)",
    ],
  },
  {
    title: "a table without rows",
    set: { "model.tables.0.rows": 0 },
    says: ["job.json: Expected `model.tables[0].rows` to be a number >= 1, got `0` (number)"],
  },
  {
    title: "a hashed table of one row",
    set: { "model.tables.0.rows": 1 },
    says: [
      "job.json: Expected `model.tables[0].rows` to be at least 2 for hashed ids, got `1` (number)",
    ],
  },
  {
    title: "two tables of one name",
    set: { "model.tables.1.name": "user" },
    says: [
      "job.json: Expected `model.tables[1].name` to be a name that no other table has, got `user` (string)",
    ],
  },
  {
    title: "vectors of another width than the bottom MLP's",
    set: { "model.dim": 8 },
    says: [
      "job.json: Expected `model.dim` to be left out, or the bottom's last width, 4, got `8` (number)",
    ],
  },
  {
    title: "tables of several widths without a width to project them to",
    set: {
      "model.tables.1.dim": 8,
      "model.bottom": [],
      "model.dense": 0,
      "data.dense": [],
    },
    says: [
      "job.json: Expected `model.dim` to be the width of the vectors that interact, as the tables have several, got nothing",
    ],
  },
  {
    title: "a feature of a table that there is not",
    set: { "model.features": [{ column: "user" }, { column: "item", table: "items" }] },
    says: [
      "job.json: Expected `model.features[1].table` to be the name of a table of the model, or `table` beside it, got `items` (string)",
      "job.json: Expected `model.tables[1].name` to be a table that a feature looks up, got `item` (string)",
    ],
  },
  {
    title: "two features of one name",
    set: { "model.features": [{ column: "user" }, { column: "item" }, { column: "user" }] },
    says: [
      "job.json: Expected `model.features[2].name` to be a name that no other feature has, got nothing",
    ],
  },
  {
    title: "an unpooled feature without a longest sequence",
    set: {
      "model.features": [{ column: "user" }, { column: "item", pooling: "none" }],
    },
    says: [
      'job.json: Expected `model.features[1].maxLength` to be the longest sequence, as `pooling` is "none", got nothing',
    ],
  },
  {
    title: "a feature of a column that there is not",
    set: { "model.features": [{ column: "user" }, { column: "items", table: "item" }] },
    says: [
      "job.json: Feature `items` has no column `items` in the data: the columns of `data.categorical` are `user`, `item`; did you mean `item`?",
    ],
  },
  {
    title: "a column that no feature reads",
    set: {
      "model.features": [{ column: "user" }, { column: "user", name: "again", table: "item" }],
    },
    says: [
      "job.json: Column `item` feeds no feature: add one to `model.features`, or drop the column",
    ],
  },
  {
    title: "a group of a feature that there is not",
    set: { "model.groups": [{ name: "g", features: ["users"] }] },
    says: [
      "job.json: Expected `model.groups[0].features[0]` to be the name of a feature, got `users` (string)",
    ],
  },
  {
    title: "a table of more rows than 31 bits can number",
    set: { "model.tables.0.rows": 5_000_000_000 },
    says: [
      "job.json: Expected `model.tables[0].rows` to be at most 2147483647, as a row number has 31 bits: hash ids into fewer rows (`ids`), give ids rows of their own under a budget (`dynamic`), or split the column over several tables, got `5000000000` (number)",
    ],
  },
  {
    title: "a bottom MLP that ends in another width",
    set: { "model.bottom": [8] },
    says: ["job.json: Expected `model.bottom[0]` to be the dim of the tables, 4, got `8` (number)"],
  },
  {
    title: "a top MLP that ends in two outputs",
    set: { "model.top": [4, 2] },
    says: ["job.json: Expected `model.top[1]` to be 1: the logit, got `2` (number)"],
  },
  {
    title: "a table that no column feeds",
    set: { "data.categorical": ["user"] },
    says: [
      "job.json: Table `item` has no column in the data: add one to `data.categorical`, or drop the table; the columns feed `user`",
    ],
  },
  {
    title: "a column that feeds no table",
    set: { "data.categorical": ["user", "item", "shop"] },
    says: [
      "job.json: Column `shop` has no table `shop` in the model: add the table, or drop the column; the tables are `user`, `item`",
    ],
  },
  {
    title: "another number of dense features than the columns",
    set: { "model.dense": 3 },
    says: [
      "job.json: Expected `model.dense` to be left out, or that of the data, 1, got `3` (number)",
    ],
  },
  {
    title: "the label as a dense feature",
    set: { "data.dense": ["price", "clicked"], "model.dense": 2 },
    says: [
      "job.json: Expected `data.dense[1]` to be another column than the label, `clicked`: a model that reads the label predicts nothing; take it out, or say `labelAsFeature: true` where it is meant",
    ],
  },
  {
    title: "the label as a categorical feature",
    set: { "data.categorical": ["user", { column: "clicked", table: "item" }] },
    says: [
      "job.json: Expected `data.categorical[1]` to be another column than the label, `clicked`: a model that reads the label predicts nothing; take it out, or say `labelAsFeature: true` where it is meant",
    ],
  },
  {
    title: "a delimiter of two characters",
    set: { "data.delimiter": "::" },
    says: [
      "job.json: Expected `data.delimiter` to be one ASCII character that is no quote and no line break, got `::` (string)",
    ],
  },
  {
    title: "a separator that separates ids and weights alike",
    set: { "data.categorical": [{ column: "user", separator: "|", weightSeparator: "|" }, "item"] },
    says: [
      "job.json: Expected `data.categorical[0].weightSeparator` to be another character than `separator`, got `|` (string)",
    ],
  },
  {
    title: "epochs and passes that differ",
    set: { "data.epochs": 2, "data.passes": 3 },
    says: [
      "job.json: Expected `data.passes` to be left out, as `epochs` is 2 and `passes` is its old spelling, got `3` (number)",
    ],
  },
  {
    title: "no epochs",
    set: { "data.epochs": 0 },
    says: ["job.json: Expected `data.epochs` to be a number >= 1, got `0` (number)"],
  },
  {
    title: "slices that are no power of two",
    set: { slices: 6 },
    says: [
      'job.json: Expected `slices` to be one of 1, 2, 4, 8, 16, 32, 64, 128, or "auto", got `6` (number)',
    ],
  },
  {
    title: "more devices than there can be",
    set: { devices: 500 },
    says: ["job.json: Expected `devices` to be a number <= 128, got `500` (number)"],
  },
  {
    title: "a share of everything held out",
    set: { "evaluation.fraction": 1 },
    says: ["job.json: Expected `evaluation.fraction` to be a number < 1, got `1` (number)"],
  },
  {
    title: "early stopping without an end",
    set: { "evaluation.earlyStopping": { metric: "auc" } },
    says: [
      "job.json: Expected `evaluation.earlyStopping.patience` to be an integer >= 1 where there is no `target`, got nothing",
    ],
  },
  {
    title: "early stopping on a metric that there is not",
    set: { "evaluation.earlyStopping": { metric: "accuracy", patience: 2 } },
    says: [
      'job.json: Expected `evaluation.earlyStopping.metric` to be one of "auc", "gauc", "logLoss", "normalizedEntropy", "mse", "rmse", "mae", "r2", got `accuracy` (string)',
    ],
  },
  {
    title: "staleness in an exact job",
    set: {
      "model.tables": [
        { name: "user", rows: 50, dim: 4, staleness: 1 },
        { name: "item", rows: 20, dim: 4 },
      ],
    },
    says: [
      'job.json: Expected `model.tables[0].staleness` to be 0 in an exact job, whose steps read the rows of the step before; set `mode: "bounded"` to allow it, got `1` (number)',
    ],
  },
  {
    title: "a placement that there is not",
    set: { sharding: "greedy" },
    says: [
      'job.json: Expected `sharding` to be one of "auto", "as-written", got `greedy` (string)',
    ],
  },
  {
    title: "a cached table on every device",
    set: { "model.tables.0.tier": "cached", "model.tables.0.sharding": "data-parallel" },
    says: [
      'job.json: Expected `model.tables[0].tier` to be "memory" where `sharding` is "data-parallel": a copy is in memory, got `cached` (string)',
    ],
  },
  {
    title: "evaluation data of another batch size",
    set: {
      "evaluation.data": {
        kind: "csv",
        paths: ["clicks.csv"],
        label: "clicked",
        dense: ["price"],
        categorical: ["user", "item"],
        batchSize: 7,
        cache: "cache",
      },
    },
    says: [
      "job.json: Expected `evaluation.data.batchSize` to be left out, or that of the training data, 20, got `7` (number)",
    ],
  },
  {
    title: "a job of a name that no file may have",
    set: { name: "../evil" },
    says: [
      "job.json: Expected `name` to be letters, digits, - and _, at most 64, got `../evil` (string)",
    ],
  },
  {
    title: "a table's name with a control character",
    set: { "model.tables": sampleTables({ name: "us\u001ber" }) },
    says: [
      "job.json: Expected `model.tables[0].name` to be a name without control characters, got `us\\x1ber` (string)",
    ],
  },
  {
    title: "four wrong options at once",
    set: { seed: -1, slices: 3, "data.batchSize": 0, "model.dropout": 2 },
    says: [
      "job.json: Expected `model.dropout` to be a number <= 0.95, got `2` (number)",
      "job.json: Expected `data.batchSize` to be a number >= 1, got `0` (number)",
      "job.json: Expected `seed` to be a number >= 0, got `-1` (number)",
      "job.json: Expected `slices` to be one of 1, 2, 4, 8, 16, 32, 64, 128, got `3` (number)",
    ],
  },
];
