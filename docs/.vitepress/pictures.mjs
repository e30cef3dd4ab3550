import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Shows the narrow form of a picture on a phone, where the text of the wide one would be too small:
 * `lab/matrix-narrow.svg` for `lab/matrix.svg`.
 */
export function narrowPictures(markdown) {
  const { image } = markdown.renderer.rules;
  markdown.renderer.rules.image = (tokens, index, options, env, self) => {
    const [, name] =
      /^(?:\.\/)?(.+?)(?:-half)?\.svg$/.exec(tokens[index].attrGet('src') ?? '') ?? [];
    const picture = image(tokens, index, options, env, self);
    const narrow = `${name}-narrow.svg`;
    if (name === undefined || !existsSync(join(dirname(env.path), narrow))) return picture;
    return `<picture><source media="(max-width: 639px)" srcset="./${narrow}">${picture}</picture>`;
  };
}
