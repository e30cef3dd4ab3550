/**
 * Gives each cell the head of its column as `data-label`: on a phone, the style sheet shows a row as a card instead of
 * cutting columns off. The roles keep a table what it is for screen readers, whatever its style.
 */
export function tableLabels(markdown) {
  markdown.core.ruler.push('table-labels', ({ tokens }) => {
    let heads = [];
    let column = 0;
    for (const [n, token] of tokens.entries()) {
      if (token.type === 'table_open') heads = [];
      if (token.type === 'tr_open') column = 0;
      const role = ROLES[token.type];
      if (role !== undefined) token.attrSet('role', role);
      if (token.type === 'th_open') {
        const head = textOf(tokens[n + 1]);
        heads.push(head);
        // A column without a head must not have an empty one, which screen readers would announce.
        if (head === '') {
          token.tag = tokens[n + 2].tag = 'td';
          token.attrSet('role', 'cell');
        }
      }
      if (token.type === 'td_open') {
        const head = heads[column++];
        if (head) token.attrSet('data-label', head);
      }
    }
  });
}

const ROLES = {
  table_open: 'table',
  thead_open: 'rowgroup',
  tbody_open: 'rowgroup',
  tr_open: 'row',
  th_open: 'columnheader',
  td_open: 'cell',
};

function textOf({ children }) {
  return (children ?? []).map(({ content }) => content).join('');
}
