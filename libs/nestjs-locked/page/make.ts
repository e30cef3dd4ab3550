type Attributes = Readonly<Record<string, string>>;

/** Makes an element. A text is put in as text, and never as HTML. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...content: readonly (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes))
    element.setAttribute(attribute, value);
  element.append(...content);
  return element;
}

/** The same for a picture. */
export function draw(name: string, attributes: Attributes): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [attribute, value] of Object.entries(attributes))
    element.setAttribute(attribute, value);
  return element;
}

/** An element of the page. */
export function find<E extends HTMLElement>(selector: string): E {
  return document.querySelector(selector) as E;
}

/**
 * Gives an element the content of another one. What is alike stays, and with it what is selected or has the focus.
 */
export function update(old: Node, wanted: Node): void {
  const [olds, news] = [[...old.childNodes], [...wanted.childNodes]];
  const areAlike = olds.length === news.length && olds.every((it, i) => isAlike(it, news[i]));
  if (!areAlike) return (old as Element).replaceChildren(...news);
  olds.forEach((it, i) => {
    const other = news[i] as Node;
    if (!(it instanceof Text)) update(it, other);
    else if (it.data !== other.nodeValue) it.data = other.nodeValue as string;
  });
}

function isAlike(a: Node, b: Node | undefined): boolean {
  return a.nodeName === b?.nodeName && (a as Element).className === (b as Element).className;
}

/** Writes a text if it is another one, so that nothing is selected, spoken or laid out again. */
export function write(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
