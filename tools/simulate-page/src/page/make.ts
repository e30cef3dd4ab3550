type Attributes = Readonly<Record<string, string>>;
type Child = Node | string;

/** An element with attributes and content. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** @param title what it does, in more words */
export function button(text: string, title: string, press: () => void): HTMLButtonElement {
  const made = make('button', { type: 'button', title }, text);
  made.addEventListener('click', press);
  return made;
}

/** Writes a text only if it is another one, so that a selection, and what is read aloud, stay. */
export function write(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Replaces the content only if it is described by another text. */
export function fill(element: HTMLElement, sign: string, content: () => readonly Child[]): void {
  if (element.dataset['sign'] === sign) return;
  element.dataset['sign'] = sign;
  element.replaceChildren(...content());
}

export function seconds(ms: number, digits = 1): string {
  return `${(Math.max(0, ms) / 1_000).toFixed(digits)} s`;
}

/** The name of a process in its colour. @param order which of the colours */
export function chip(name: string): HTMLElement {
  return make('b', { class: 'chip', style: `--of:${colourOf(name)}` }, name);
}

/** Processes are called p1, p2 and so on. */
export function colourOf(name: string): string {
  return /^p[1-4]$/.test(name) ? `var(--${name})` : 'var(--other)';
}
