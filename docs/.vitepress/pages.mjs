/** Every page of the site and where it stands in the sidebar. Pages that are not there (yet) are left out. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** @typedef {{ text: string, items: { text: string, link: string }[] }} SidebarSection */

const DOCS = fileURLToPath(new URL('../', import.meta.url));

/** Section, and its pages: file without `.md`, and what the sidebar calls it. */
const SECTIONS = [
  [
    'Start here',
    [
      ['index', 'What it is'],
      ['quick-start', 'Quick start'],
      ['installation', 'Installation'],
      ['when-not-to-lock', 'When not to lock'],
    ],
  ],
  [
    'Tasks',
    [
      ['keys', 'Keys'],
      ['waiting', 'Waiting and fairness'],
      ['readers', 'Readers and writers'],
      ['permits', 'Permits: so many at once'],
      ['losing-a-lock', 'Losing a lock'],
      ['transactions', 'Transactions'],
      ['transactions-in-depth', 'Transactions in depth'],
      ['around-transactions', 'Around transactions'],
      ['orms', 'ORMs'],
      ['http', 'HTTP'],
      ['graphql', 'GraphQL'],
      ['microservices', 'Microservices'],
      ['websockets', 'WebSockets'],
      ['cron', 'Cron jobs'],
      ['node-cron', 'node-cron'],
      ['leader', 'A leader'],
      ['bullmq', 'BullMQ'],
      ['hand-off', 'A lock that goes on elsewhere'],
      ['idempotency', 'Idempotency keys'],
      ['cold-cache', 'A cold cache'],
      ['tenants', 'A lock per tenant'],
      ['streams', 'Observables and streams'],
      ['testing', 'Testing'],
    ],
  ],
  [
    'In production',
    [
      ['redis', 'Connecting to Redis'],
      ['servers', 'Servers and managed services'],
      ['operations', 'Operations'],
      ['first-lease', 'After a crash'],
      ['dashboard', 'Dashboard'],
      ['telemetry', 'Metrics and traces'],
      ['guarantees', 'Guarantees by topology'],
      ['growth', 'When one server is not enough'],
      ['quorum', 'A quorum of masters'],
      ['outages', 'Outages of Redis'],
      ['shutdown', 'Shutdown'],
      ['troubleshooting', 'Troubleshooting'],
    ],
  ],
  [
    'Other locks',
    [
      ['comparison', 'Comparison'],
      ['migration', 'Migration'],
      ['other-clients', 'Sharing keys with them'],
      ['redisson', 'Sharing locks with Redisson'],
      ['benchmarks', 'Benchmarks'],
    ],
  ],
  [
    'Reference',
    [
      ['behaviour', 'Behaviour'],
      ['support', 'Support and versions'],
      ['api/index', 'API'],
    ],
  ],
  [
    'Design',
    [
      ['how-it-works', 'How it works'],
      ['proof', 'Proof'],
      ['simulator', 'Simulator'],
      ['lab', 'Lock lab'],
      ['demo', 'Demo'],
      ['adr/README', 'Decisions'],
    ],
  ],
];

/**
 * The sidebar: sections that have pages, and their pages, in this order.
 *
 * @returns {SidebarSection[]}
 */
export function sidebar() {
  return sectionsOf(SECTIONS);
}

/**
 * The same with every decision, for the pages of decisions.
 *
 * @returns {SidebarSection[]}
 */
export function sidebarOfDecisions() {
  return sectionsOf([...SECTIONS, ['Decisions', readPages('adr')]]);
}

/** The entry points, in the order in which an application meets them. */
const ENTRY_POINTS = [
  '',
  '/testing',
  '/typeorm',
  '/nestjs-cls',
  '/transactions',
  '/terminus',
  '/dashboard',
  '/opentelemetry',
];

/**
 * The sidebar of the API reference: each entry point, and what it exports by kind.
 *
 * @returns {SidebarSection[]}
 */
export function sidebarOfApi() {
  const all = readPages('api');
  const entries = ENTRY_POINTS.map((path) => `nestjs-locked${path}`);
  const sections = entries.map((entry) => {
    const folder = `api/${entry}/`;
    const kinds = KINDS.map(([kind, text]) => ({
      text,
      items: all
        .filter(([file]) => file.startsWith(`${folder}${kind}/`))
        .map(([file]) => ({ text: file.split('/').at(-1), link: `/${file}` })),
    }));
    const items = [{ text: 'Overview', link: `/${folder}` }, ...kinds];
    return { text: entry, items: items.filter(({ items: inner }) => inner?.length !== 0) };
  });
  return [{ text: 'API', items: [{ text: 'Entry points', link: '/api/' }] }, ...sections];
}

/** Folders of the reference, and what the sidebar calls them. */
const KINDS = [
  ['functions', 'Functions and decorators'],
  ['classes', 'Classes'],
  ['interfaces', 'Interfaces'],
  ['type-aliases', 'Types'],
];

function sectionsOf(sections) {
  return sections
    .map(([text, pages]) => ({
      text,
      items: pages
        .filter(([file]) => existsSync(`${DOCS}${file}.md`))
        .map(([file, name]) => ({
          text: name,
          link: `/${file.replace(/(^|\/)(?:index|README)$/, '$1')}`,
        })),
    }))
    .filter(({ items }) => items.length > 0);
}

/** The pages below a folder except its first one, named by their headings. */
function readPages(folder) {
  if (!existsSync(`${DOCS}${folder}`)) return [];
  return readdirSync(`${DOCS}${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && !/^(?:index|README)\.md$/.test(path))
    .sort()
    .map((path) => {
      const file = `${folder}/${path.replaceAll('\\', '/').slice(0, -'.md'.length)}`;
      const [, title = file] = /^# (.+)$/m.exec(readFileSync(`${DOCS}${file}.md`, 'utf8')) ?? [];
      return [file, title.replaceAll('`', '')];
    });
}
