/** The rules of CONTRIBUTING.md for commit messages. `npm run lint:commits` checks the commits after this file. */
export default {
  helpUrl: 'CONTRIBUTING.md, "Commits"',
  extends: ['@commitlint/config-conventional'],
  // Git writes what merges, and people explain a merge as they like.
  ignores: [(message) => message.startsWith('Merge ')],
  rules: {
    'type-enum': [2, 'always', ['feat', 'fix', 'test', 'docs', 'refactor', 'style', 'chore']],
    'header-max-length': [0],
    'subject-max-length': [2, 'always', 110],
    // Names of classes and commands begin a subject as they are written.
    'subject-case': [0],
    'body-empty': [2, 'never'],
    'body-max-line-length': [2, 'always', 120],
    'footer-max-line-length': [2, 'always', 120],
  },
};
