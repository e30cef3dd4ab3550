/** Answers the page: opens a history, plays it, and tells what it shows. */
// The bundler makes a text of it, in base 64.
import interpreter from 'wasmoon-lua5.1/dist/liblua5.1.wasm';
import { LuaScripts } from '../../../simulate/dist/server/lua-scripts.js';
import type { Answer, Request } from '../view.js';
import { PlayedHistory } from './played-history.js';

const loading = LuaScripts.create(`data:application/octet-stream;base64,${interpreter}`);
let played: PlayedHistory | undefined;

const tell = (answer: Answer): void => postMessage(answer);

async function answer(request: Request): Promise<void> {
  if (request.kind === 'open') {
    played = new PlayedHistory(await loading, request.script);
    await played.runUntil(request.atMs);
  }
  if (played === undefined) return;
  if (request.kind === 'history') return tell({ kind: 'history', lines: played.lines });
  if (request.kind === 'play') await played.play(request.forMs, request.speed);
  if (request.kind === 'step') await played.step();
  if (request.kind === 'act') await played.act(request.what, request.process);
  tell({ kind: 'view', view: played.view(), actions: played.actions });
}

/** One request after the other: a world is in one moment at a time. */
let last: Promise<void> = Promise.resolve();
onmessage = ({ data }: MessageEvent<Request>) => {
  last = last.then(() => answer(data)).catch((error: unknown) => reportError(error));
};
// Otherwise the page would not hear of it.
addEventListener('unhandledrejection', ({ reason }) => reportError(reason));
