/** The page: `<lock-simulator>` shows a history that is played in a worker, and sends it what the reader does. */
import type { Action, ActionName, Answer, Request, Script, View } from '../view.js';
import { Controls } from './controls.js';
import { legend } from './legend.js';
import { LogList } from './log-list.js';
import { make } from './make.js';
import { Picture } from './picture.js';
import { ProcessCard } from './process-card.js';
import { ServerCard } from './server-card.js';
import { STYLE } from './style.js';
import { hashOf, isOfHistory, linkedBy } from './view-link.js';
import { Wire } from './wire.js';

/** What is shown first: somebody holds the key, and somebody waits. */
const FIRST_MS = 2_600;
/** What a frame plays, at most, after the page was hidden or the machine was busy. */
const MOST_PER_FRAME_MS = 100;

class LockSimulator extends HTMLElement {
  readonly #stage = make('div', { class: 'stage' });
  readonly #picture = new Picture();
  readonly #log = new LogList();
  readonly #server = new ServerCard((what) => this.#act(what));
  readonly #controls = new Controls({
    play: () => this.#setPlaying(!this.#isPlaying),
    step: () => this.#step(),
    again: () => this.#choose({ ...this.#script, actions: [] }),
    choose: (seed, scene) => this.#choose({ seed, scene, actions: [] }),
    link: () => this.#address(),
  });
  #cards: ProcessCard[] = [];
  #wires: Wire[] = [];
  #world: Worker | undefined;
  #script: Script = { seed: 1, scene: 'calm', actions: [] };
  #view: View | undefined;
  #isPlaying = false;
  /** Whether the reader has done something; until then, the address is left alone. */
  #isUsed = false;
  /** Whether the world has not yet answered. */
  #isAsked = false;
  #frame = 0;
  #frameAt = 0;
  readonly #hashChanged = (): void => {
    const { hash } = location;
    if (isOfHistory(hash) && hash !== hashOf(this.#linked())) this.#openLink();
  };

  connectedCallback(): void {
    const root = this.shadowRoot ?? this.attachShadow({ mode: 'open' });
    const below = make('div', { class: 'below' }, this.#log.element, legend());
    const all = [this.#controls.element, this.#stage, this.#picture.element, below] as const;
    root.replaceChildren(make('style', {}, STYLE), make('div', { class: 'simulator' }, ...all));
    const world = new Worker(new URL('world.js', import.meta.url));
    world.onmessage = ({ data }: MessageEvent<Answer>) => this.#hear(data);
    world.onerror = ({ message }) => this.#failed(message);
    this.#world = world;
    addEventListener('hashchange', this.#hashChanged);
    this.#openLink();
    this.#frame = requestAnimationFrame((at) => this.#tick(at));
  }

  disconnectedCallback(): void {
    this.#world?.terminate();
    cancelAnimationFrame(this.#frame);
    removeEventListener('hashchange', this.#hashChanged);
  }

  // ---- what the reader does ---------------------------------------------------------------------------------

  #openLink(): void {
    const { script, atMs } = linkedBy(location.hash);
    this.#open(script, atMs ?? (script.scene === 'calm' ? FIRST_MS : 0));
  }

  #choose(script: Script): void {
    this.#isUsed = true;
    this.#open(script, 0);
  }

  #open(script: Script, atMs: number): void {
    this.#setPlaying(false);
    this.#script = script;
    this.#ask({ kind: 'open', script, atMs });
  }

  #setPlaying(isPlaying: boolean): void {
    this.#isPlaying = isPlaying;
    this.#isUsed ||= isPlaying;
    this.#controls.showPlaying(isPlaying);
    this.#writeHash();
  }

  #step(): void {
    this.#isUsed = true;
    this.#setPlaying(false);
    this.#ask({ kind: 'step' });
  }

  #act(what: ActionName, process?: string): void {
    this.#isUsed = true;
    this.#ask({ kind: 'act', what, process });
  }

  // ---- what the world answers -------------------------------------------------------------------------------

  #ask(request: Request): void {
    this.#isAsked = true;
    this.#world?.postMessage(request);
  }

  #hear(answer: Answer): void {
    this.#isAsked = false;
    if (answer.kind !== 'view') return;
    this.#show(answer.view, answer.actions);
  }

  #show(view: View, actions: readonly Action[]): void {
    const isOther = actions.length !== this.#script.actions.length;
    this.#view = view;
    this.#script = { ...this.#script, actions };
    this.#showProcesses(view);
    this.#server.show(view.server);
    this.#picture.show(view);
    this.#log.show(view.log);
    this.#controls.show(view, this.#script);
    if (view.isOver && this.#isPlaying) this.#setPlaying(false);
    else if (isOther || !this.#isPlaying) this.#writeHash();
  }

  #showProcesses({ processes, flights, now }: View): void {
    const names = processes.map(({ name }) => name);
    if (names.join() !== this.#cards.map(({ name }) => name).join()) this.#build(names);
    processes.forEach((process, i) => {
      this.#cards[i]?.show(process, now);
      this.#wires[i]?.show(flights, process.isCut);
    });
  }

  #build(names: readonly string[]): void {
    this.#cards = names.map((name) => new ProcessCard(name, (what) => this.#act(what, name)));
    this.#wires = names.map((name) => new Wire(name));
    this.#stage.style.setProperty('--rows', String(names.length));
    this.#stage.replaceChildren(
      this.#server.element,
      ...names.flatMap((_, i) => [this.#cards[i]?.element ?? '', this.#wires[i]?.element ?? '']),
    );
  }

  #failed(message: string): void {
    this.#setPlaying(false);
    this.#controls.say(`The simulator has failed: ${message}`);
  }

  // ---- time -------------------------------------------------------------------------------------------------

  #tick(at: number): void {
    this.#frame = requestAnimationFrame((next) => this.#tick(next));
    const forMs = Math.min(MOST_PER_FRAME_MS, at - this.#frameAt);
    if (this.#isAsked && this.#isPlaying) return;
    this.#frameAt = at;
    if (this.#isPlaying) this.#ask({ kind: 'play', forMs, speed: this.#controls.speed });
  }

  // ---- the link ---------------------------------------------------------------------------------------------

  /** While it plays, without the moment, which changes all the time. */
  #linked(atMs = this.#isPlaying ? undefined : this.#view?.now): Parameters<typeof hashOf>[0] {
    return { script: this.#script, atMs };
  }

  #writeHash(): void {
    if (this.#view === undefined || this.#isAsked || !this.#isUsed) return;
    history.replaceState(history.state, '', hashOf(this.#linked()));
  }

  #address(): string {
    return new URL(hashOf(this.#linked(this.#view?.now)), location.href).href;
  }
}

customElements.define('lock-simulator', LockSimulator);
