import { describe, expect, it } from '@jest/globals';
import { isAlive } from 'dev-servers';
import {
  ChildProgram,
  type ChildProgramOptions,
  chosenFrom,
  escapeMarkup,
  markdownTable,
  nameFrom,
  namesFrom,
  newestResults,
  numberFrom,
  type ProxyLink,
  SeededRandom,
  svgPicture,
  TcpProxy,
  textTable,
  wholeNumberFrom,
} from 'kit';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../../../test/support/after-test.js';
import { eventually } from '../../../test/support/eventually.js';

describe('ChildProgram', () => {
  it('hears what the program sends, and how it ends', async () => {
    const program = start(`process.send('ready'); process.on('message', (n) => process.exit(n));`);
    expect(await program.nextMessage()).toBe('ready');
    expect([program.isRunning, program.ending]).toEqual([true, undefined]);
    program.tell(7);
    expect(await program.ended).toBe('exit code 7');
    expect([program.isRunning, program.ending, program.exitCode]).toEqual([
      false,
      'exit code 7',
      7,
    ]);
    program.tell(8); // nobody hears it
  });

  it('keeps what it prints, and hands it on line by line', async () => {
    const heard: string[] = [];
    const program = start(`console.log('one\\ntwo');`, {
      stdout: 'pipe',
      stderr: 'pipe',
      hear: (line) => heard.push(line),
    });
    await program.ended;
    expect(heard).toEqual(['one', 'two']);
    expect(program.output).toBe('one\ntwo');
  });

  it('says how it ended to whoever waits for a message', async () => {
    await expect(start('process.exit(3)').nextMessage()).rejects.toThrow('exit code 3');
  });

  it('is paused and resumed', async () => {
    const program = start(`process.on('message', (text) => process.send(text));`);
    program.pause();
    program.tell(1);
    const answer = program.nextMessage();
    expect(program.isPaused).toBe(true);
    expect(await Promise.race([answer, sleep(100, 'silent')])).toBe('silent');
    program.resume();
    expect(await answer).toBe(1);
  });

  it('is killed, even if it is paused, and when it does not end in time', async () => {
    const [paused, slow] = [start(WAITS), start(WAITS)];
    paused.pause();
    await paused.kill();
    expect(isAlive(paused.pid ?? 0)).toBe(false);
    expect(await slow.endsWithin(50)).toBe('SIGKILL');
  });

  it('ends on its own when nobody listens any more', async () => {
    const program = start(`process.on('message', () => {}); process.send('ready');`);
    await program.nextMessage();
    program.disconnect();
    expect(await program.endsWithin(30_000)).toBe('exit code 0');
  });
});

describe('TcpProxy', () => {
  it('passes on what both sides say, and the end of either', async () => {
    const { proxy, say } = await reached();
    expect(await say('hello')).toBe('HELLO');
    expect(proxy.links.size).toBe(1);
    say.client.end();
    await eventually(() => expect(proxy.links.size).toBe(0));
  });

  it('cuts, closes, and opens again on the same port', async () => {
    const { proxy, say } = await reached();
    const { url } = proxy;
    await say('hello');
    await proxy.close();
    await eventually(() => expect(say.client.destroyed).toBe(true));
    await proxy.open();
    expect(proxy.url).toBe(url);
    expect(await (await clientOf(proxy))('again')).toBe('AGAIN');
  });

  it('leads new connections to another server', async () => {
    const { proxy, say } = await reached();
    await say('hello');
    proxy.leadTo(await echo((text) => `other ${text}`));
    expect(await say('hello')).toBe('HELLO');
    expect(await (await clientOf(proxy))('hello')).toBe('other hello');
  });

  it('delays answers, which keep their order', async () => {
    const { proxy, say } = await reached();
    await say('a');
    linkOf(proxy).answersLateByMs = 100;
    const since = performance.now();
    const slow = say('b');
    await eventually(() => expect(linkOf(proxy).client.bytesRead).toBe(2));
    expect(await slow).toBe('B');
    expect(performance.now() - since).toBeGreaterThan(90);
  });

  it('falls silent: nothing passes, and neither side is told of the end of the other', async () => {
    const { proxy, say } = await reached();
    await say('a');
    const { server } = linkOf(proxy);
    linkOf(proxy).fallSilent();
    void say('b');
    say.client.end();
    await eventually(() => expect(linkOf(proxy).client.bytesRead).toBe(2));
    expect(server.bytesWritten).toBe(1);
    expect([server.writableEnded, say.client.destroyed]).toEqual([false, false]);
  });

  it('lets a link change what passes', async () => {
    class Louder extends TcpProxy {
      protected override accept(link: ProxyLink): void {
        link.fromServer = (data) => link.toClient(Buffer.from(`${data.toString()}!`));
      }
    }
    const proxy = await new Louder(await echo()).open();
    afterTest(() => proxy.close());
    expect(await (await clientOf(proxy))('hello')).toBe('HELLO!');
  });

  it('has the address of its target, with its own port', async () => {
    const proxy = await new TcpProxy('postgres://user:secret@localhost:5432/shop').open();
    afterTest(() => proxy.close());
    expect(proxy.url).toMatch(/^postgres:\/\/user:secret@127\.0\.0\.1:\d+\/shop$/);
  });
});

describe('values of options', () => {
  it('are read', () => {
    expect(wholeNumberFrom('seed', '42', 0)).toBe(42);
    expect(numberFrom('pace', '0.5', 0.1)).toBe(0.5);
    expect(numberFrom('pace', undefined, 0.1)).toBeUndefined();
    expect(nameFrom('stage', 'b', NAMES)).toBe('b');
    expect([...namesFrom('only', ['c', 'a,b'], NAMES)]).toEqual(['c', 'a', 'b']);
    expect(chosenFrom('only', 'c,a', NAMES)).toEqual(['a', 'c']);
    expect(chosenFrom('only', '', NAMES)).toEqual(NAMES);
  });

  it.each([
    [() => wholeNumberFrom('seed', '-1', 0), "--seed is '-1': give a whole number from 0"],
    [() => wholeNumberFrom('seed', '1.5', 0), "--seed is '1.5': give a whole number from 0"],
    [() => numberFrom('pace', 'fast', 1), "--pace is 'fast': give a number from 1"],
    [() => namesFrom('only', 'a,x', NAMES), "--only is 'x': give one of a, b, c"],
  ])('are refused with what is allowed (%#)', (read, message) => {
    expect(read).toThrow(message);
  });
});

describe('tables', () => {
  it('have columns for a terminal', () => {
    const rows = [
      ['', 'per second'],
      ['ours', '12'],
    ];
    expect(textTable(rows)).toBe('       per second\nours           12');
  });

  it('are Markdown', () => {
    expect(markdownTable(['a', 'b'], [['1', 'x | y']])).toBe(
      '| a | b |\n| --- | --- |\n| 1 | x \\| y |',
    );
  });
});

describe('pictures', () => {
  const picture = { width: 10, height: 20, label: 'a <b>', parts: ['<path d="M0 0"/>'] };

  it('say what they show, and take their colours from the page', () => {
    expect(svgPicture(picture)).toBe(
      '<svg viewBox="0 0 10 20" role="img" aria-label="a &lt;b&gt;"' +
        ' xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>',
    );
  });

  it('have colours of their own in both schemes when they stand alone', () => {
    const own = { light: { ink: '#000' }, dark: { ink: '#fff' }, style: 'path{fill:var(--ink)}' };
    const svg = svgPicture({ ...picture, own });
    expect(svg).toContain('svg{--ink:#000}@media (prefers-color-scheme:dark){svg{--ink:#fff}}');
    expect(svg).toContain('path{fill:var(--ink)}</style><rect class="page"');
  });

  it('have text that is no markup', () => {
    expect(escapeMarkup('<a href="x">&')).toBe('&lt;a href=&quot;x&quot;&gt;&amp;');
  });
});

it('the same seed gives the same random numbers', () => {
  const draw = (seed: number): number[] => {
    const random = new SeededRandom(seed);
    return Array.from({ length: 200 }, () => random.between(1, 6));
  };
  expect(draw(1)).toEqual(draw(1));
  expect(draw(1)).not.toEqual(draw(2));
  expect([...new Set(draw(1))].sort()).toEqual([1, 2, 3, 4, 5, 6]);
});

it('the newest results are those of the highest version', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-test-'));
  afterTest(() => rmSync(folder, { recursive: true }));
  expect(newestResults(folder)).toBeUndefined();
  for (const name of ['0.9.0', '0.10.0', 'latest']) {
    writeFileSync(join(folder, `${name}.json`), JSON.stringify(name));
  }
  expect(newestResults(folder)).toBe('0.10.0');
});

const WAITS = 'setInterval(() => {}, 1_000)';
const NAMES = ['a', 'b', 'c'] as const;

/** A program of this text; killed after the test. */
function start(text: string, options: ChildProgramOptions = {}): ChildProgram<number> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-test-'));
  const file = join(folder, 'program.mjs');
  writeFileSync(file, text);
  const program = new ChildProgram<number>(file, { execArgv: [], ...options });
  afterTest(async () => {
    await program.kill();
    rmSync(folder, { recursive: true });
  });
  return program;
}

interface Say {
  (text: string): Promise<string>;
  readonly client: Socket;
}

/** A server that answers each message, and a client that reaches it through a proxy. */
async function reached(): Promise<{ proxy: TcpProxy; say: Say }> {
  const proxy = await new TcpProxy(await echo()).open();
  afterTest(() => proxy.close());
  return { proxy, say: await clientOf(proxy) };
}

/** @returns its port */
async function echo(answer = (text: string) => text.toUpperCase()): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => socket.write(answer(data.toString())));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterTest(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function clientOf({ url }: TcpProxy): Promise<Say> {
  const client = connect(Number(new URL(url).port), '127.0.0.1');
  client.on('error', () => {});
  await once(client, 'connect');
  afterTest(() => client.destroy());
  const say = async (text: string): Promise<string> => {
    const answered = once(client, 'data') as Promise<[Buffer]>;
    client.write(text);
    return (await answered)[0].toString();
  };
  return Object.assign(say, { client });
}

function linkOf({ links }: TcpProxy): ProxyLink {
  return [...links][0] as ProxyLink;
}
