// The shapes of the API and of the control protocol (docs/control-protocol.md), for the type check
// of the page.

interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  cache_creation_input_tokens?: number;
  cache_read_input_tokens?: number;
}

interface Agent {
  name: string;
  role?: string | null;
  color?: string | null;
  agent_type?: string | null;
  model?: string | null;
  mode?: string | null;
  backend_type?: string | null;
  worktree?: string | null;
  process?: { waits_for?: string | null } | null;
  status: string;
  reason?: string | null;
  task?: { id: string; subject: string } | null;
  max_turns?: number | null;
  turns: number;
  tool_calls: number;
  usage: Usage;
  cost_usd: number;
  has_price: boolean;
  is_counted: boolean;
  doing: string | null;
  asks: Record<string, string>;
}

interface Session {
  outcome: string;
  is_error: boolean;
  result: string;
  duration_ms?: number | null;
  duration_api_ms?: number | null;
  turns?: number | null;
  cost_usd?: number | null;
  usage: Usage;
  models?: { model: string; usage?: Usage; cost_usd?: number | null }[];
}

/** The limits at which a run ends. */
interface Limits {
  max_turns?: number | null;
  max_cost_usd?: number | null;
}

interface TeamView {
  team: string;
  lead?: string | null;
  limits?: Limits;
  spent_before_usd?: number;
  agents: Agent[];
  tasks?: Task[];
  timeline?: { entries?: any[] };
  cleanup?: any;
  session?: Session | null;
}

interface Task {
  id: string;
  subject: string;
  description: string;
  owner?: string | null;
  status: "pending" | "in_progress" | "completed";
  blocks: string[];
  blockedBy: string[];
  metadata?: Record<string, any>;
}

type Offer = "edits" | { rule: string } | { exactly: { rule: string | null } };

interface QuestionLine {
  kind: "text" | "added" | "removed" | "note" | "mark";
  text: string;
}

interface PermissionQuestion {
  asker: string;
  tool: string;
  folder: string;
  reason: string;
  lines: QuestionLine[];
  offers: Offer[];
  digest: string;
}

interface OpenQuestion {
  id: string;
  since_ms: number;
  question: PermissionQuestion;
}

interface HostState {
  next_seq: number;
  team: TeamView;
  tasks: Task[];
  questions: OpenQuestion[];
  /** The text that each model is writing. */
  writing: Map<string, string>;
  outcome: RunOutcome | null;
  /** The client that leads the team, if it is another one. */
  running_in_words?: string;
}

interface RunEvent {
  event: string;
  agent: string;
  usage?: Usage;
  cost_usd?: number | null;
  [field: string]: any;
}

interface HostEvent {
  seq: number;
  at_ms: number;
  what: {
    run?: RunEvent;
    question_opened?: OpenQuestion;
    question_closed?: { id: string };
    tasks?: Task[];
    config?: TeamConfig;
    ended?: RunOutcome;
  };
}

interface TeamConfig {
  name: string;
  members?: {
    name: string;
    color?: string;
    agentType?: string;
    model?: string;
    mode?: string;
    planModeRequired?: boolean;
    backendType?: string;
    worktreePath?: string;
    pitcrew?: { maxTurns?: number };
  }[];
}

interface RunOutcome {
  team: string;
  end: { kind: string; text?: string | null; reason?: string; shortfall?: string; limit?: string };
  agents?: (Pick<Agent, "name" | "turns" | "tool_calls" | "usage" | "cost_usd" | "is_counted"> & {
    state: string;
    model: string;
    role?: string;
  })[];
  totals?: {
    ran_ms: number;
    model_time_ms: number;
    models: Record<string, { usage: Usage; cost_usd: number; is_unpriced: boolean }>;
  };
}

interface Plan {
  request_id: string;
  member: string;
  state: string;
  plan: string | null;
  feedback?: string | null;
}

/** An entry of the timeline. */
interface Entry {
  n: number;
  at_ms: number | null;
  kind: string;
  agent: string | null;
  to: string[];
  text: string;
  content: string | null;
  tokens?: number;
  cost_usd?: number;
  summary?: string | null;
  isToTeam: boolean;
  isFailure: boolean;
}

interface Filter {
  group: string;
  words: string;
}

interface Route {
  team: string;
  view: string;
  name: string;
  /** The moment of a replay that the address names. */
  at: number | null;
}

interface TeamSummary {
  name: string;
  description?: string;
  state: "running" | "unknown" | "stopped" | "archived";
  archive?: string;
  members?: string[];
  problem?: string;
  tasks?: { open: number; done: number };
  /** How many requests wait for a person. */
  waiting?: number;
  created_at_ms?: number;
  archived_at_ms?: number | null;
  cost_usd?: number | null;
}

interface ChangedFile {
  path: string;
  diff?: string | null;
  not_shown?: string | null;
}

interface Branch {
  name: string;
  base: string;
  commit: string;
  ahead?: number;
  behind?: number;
  uncommitted?: string[];
}

/** A warning of a run. */
interface Warning {
  at_ms: number;
  text: string;
}

interface MemberChanges {
  /** Where the files are. A member that has left the team has none. */
  folder?: string;
  branch?: Branch | null;
  files: ChangedFile[];
  left_out?: number;
  problem?: string | null;
  /** The members with changes, and how many files each has changed. */
  counts?: { member: string; files: number }[];
}

/** A part of a conversation. */
interface Part {
  part: string;
  text?: string;
  from?: string;
  frame?: string;
  summary?: string;
  status?: string;
  reason?: string;
  tool?: string;
  input?: unknown;
  permission?: string | { denied: string };
  result?: { text: string; is_error: boolean } | null;
}

type StreamKind = "snapshot" | "event" | "silent" | "gone" | "end" | "link";
type Link = "connecting" | "live" | "silent" | "gone" | "ended" | "lost" | "missing";
type LiveStore = import("../../crates/web/page/store.js").TeamStore;
type Store =
  | LiveStore
  | import("../../crates/web/page/replaying.js").ReplayStore;

/** A replay, as `view::replay` writes it. */
interface Recorded {
  name: string;
  clock: "recorded" | "lines";
  from_ms: number;
  to_ms: number;
  first: Partial<HostState>;
  events: TimedEvent[];
  left_out: number;
  unread: string[];
  is_live?: boolean;
  masked?: string;
}

interface TimedEvent {
  seq: number;
  at_ms: number;
  what: {
    changed?: Changes;
    happened?: { line: number; what: any };
    part?: { agent: string; n: number; part: Part };
    call?: { agent: string; n: number; fields: Partial<Part> };
  };
}

interface Changes {
  team?: Partial<TeamView>;
  agents?: (Partial<Agent> & { name: string })[];
  order?: string[];
  tasks?: Task[];
  tasks_gone?: string[];
}
