/** Shows the name of an example's file, as in ` ```ts file=stock.service.ts `, above its code. */
export function fileNames(markdown) {
  const { fence } = markdown.renderer.rules;
  markdown.renderer.rules.fence = (tokens, index, ...rest) => {
    const code = fence(tokens, index, ...rest);
    const [, name] = / file=(\S+)/.exec(tokens[index].info) ?? [];
    return name === undefined ? code : `<p class="file-name">${name}</p>${code}`;
  };
}
