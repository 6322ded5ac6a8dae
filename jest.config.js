const jupyterlab = require('@jupyterlab/testing/lib/jest-config')(__dirname);

// Packages that ship ES modules only, which jest has to translate.
const esModules = [
  '@codemirror',
  '@jupyter/',
  '@jupyterlab/',
  '@marijn',
  '@microsoft',
  'color',
  'exenv-es6',
  'lib0',
  'marked',
  'nanoid',
  'vscode-ws-jsonrpc',
  'y-protocols',
  'y-websocket',
  'yjs'
].join('|');

module.exports = {
  ...jupyterlab,
  cacheDirectory: '<rootDir>/.cache/jest',
  collectCoverageFrom: ['src/**/*.{ts,tsx}', '!src/**/__tests__/**'],
  modulePathIgnorePatterns: [
    '<rootDir>/.venv',
    '<rootDir>/build/',
    '<rootDir>/prime_ext/labextension/'
  ],
  passWithNoTests: true,
  reporters: ['default'],
  setupFiles: [...(jupyterlab.setupFiles ?? []), '<rootDir>/jest.setup.js'],
  testRegex: 'src/.*/__tests__/.*\\.spec\\.tsx?$',
  transformIgnorePatterns: [`/node_modules/(?!${esModules}).+`]
};
