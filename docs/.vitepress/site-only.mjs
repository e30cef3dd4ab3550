/**
 * Shows what only the site has, such as links to pages that are made when it is built. On the code host, it is a
 * comment: `<!-- site: [The report](/lab/report.html){target="_self"} -->`.
 */
export function siteOnly(markdown) {
  const render = markdown.render.bind(markdown);
  markdown.render = (text, env) => render(shownOnSite(text), env);
}

/** @param {string} text Markdown of the repository @returns {string} that of the site */
export function shownOnSite(text) {
  return text.replaceAll(/<!-- site: ([^]*?) -->/g, '$1');
}
