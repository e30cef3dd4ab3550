import { type SceneName, SCENES, type Script, type View } from '../view.js';
import { button, make, write } from './make.js';

const SPEEDS = ['0.25', '0.5', '1', '2', '5', '20'] as const;
const SCENE_NAMES: Readonly<Record<SceneName, string>> = {
  calm: 'no faults but yours',
  faults: 'random faults',
};
/** How long a button says that it was pressed. */
const SAID_MS = 2_000;

/** What the controls ask of the page. */
export interface Controlled {
  play(): void;
  step(): void;
  again(): void;
  choose(seed: number, scene: SceneName): void;
  /** @returns the address of what is shown */
  link(): string;
}

/** Play, pause, step, speed; which history; the link to it. */
export class Controls {
  readonly element: HTMLElement;
  readonly #play = make('button', { type: 'button', class: 'play' }, 'Play');
  readonly #time = make('output', { class: 'time' });
  readonly #slow = make('span', { class: 'slow' }, 'slow motion');
  readonly #speed = make('select', { 'aria-label': 'Speed' });
  readonly #seed = make('input', { type: 'number', min: '0', step: '1', 'aria-label': 'Seed' });
  readonly #scene = make('select', { 'aria-label': 'What happens' });
  readonly #said = make('p', { class: 'said', role: 'status' });

  constructor(controlled: Controlled) {
    for (const speed of SPEEDS) {
      this.#speed.append(make('option', { value: speed }, `${speed}×`));
    }
    this.#speed.value = '1';
    for (const scene of SCENES) {
      this.#scene.append(make('option', { value: scene }, SCENE_NAMES[scene]));
    }
    const choose = (): void => {
      const seed = Math.max(0, Math.floor(this.#seed.valueAsNumber || 0));
      controlled.choose(seed, this.#scene.value as SceneName);
    };
    this.#seed.addEventListener('change', choose);
    this.#scene.addEventListener('change', choose);
    this.#play.addEventListener('click', () => controlled.play());
    const next = (): void => {
      this.#seed.value = String((this.#seed.valueAsNumber || 0) + 1);
      choose();
    };
    this.element = make(
      'div',
      { class: 'controls', role: 'group', 'aria-label': 'Controls' },
      make(
        'div',
        {},
        this.#play,
        button('Step', 'To the next event', () => controlled.step()),
        button('Start over', 'The same seed, without what was done by hand', () =>
          controlled.again(),
        ),
        make('label', {}, 'Speed ', this.#speed),
        this.#time,
        this.#slow,
      ),
      make(
        'div',
        {},
        make('label', {}, 'Seed ', this.#seed),
        button('Next seed', 'Another history', next),
        this.#scene,
        button('Copy link', 'A link to this moment of this history', () => {
          void this.#copy(controlled.link());
        }),
      ),
      this.#said,
    );
  }

  get speed(): number {
    return Number(this.#speed.value);
  }

  showPlaying(isPlaying: boolean): void {
    write(this.#play, isPlaying ? 'Pause' : 'Play');
  }

  show({ now, isSlow, isOver }: View, { seed, scene }: Script): void {
    write(this.#time, `${(now / 1_000).toFixed(3)} s`);
    this.#time.dataset['ms'] = String(now);
    this.#slow.classList.toggle('on', isSlow && !isOver);
    if (this.#seed.getRootNode() instanceof ShadowRoot && !this.#seed.matches(':focus')) {
      this.#seed.value = String(seed);
    }
    this.#scene.value = scene;
    this.#play.disabled = isOver;
    if (isOver) this.say('The history ends here.');
  }

  say(text: string): void {
    write(this.#said, text);
  }

  async #copy(link: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(link);
      this.say('Copied: the link leads to this moment.');
    } catch {
      this.say(`Your browser does not let the page copy. The link is: ${link}`);
    }
    setTimeout(() => this.say(''), SAID_MS * 2);
  }
}
