import js from '@eslint/js';
import jupyter from '@jupyter/eslint-plugin';
import { defineConfig } from 'eslint/config';
import prettier from 'eslint-config-prettier';
import globals from 'globals';
import tseslint from 'typescript-eslint';

export default defineConfig([
  {
    ignores: [
      '.venv*',
      '.cache',
      '.yarn',
      'build',
      'coverage',
      'dist',
      'lib',
      'node_modules',
      'playground',
      'prime_ext/labextension',
      'ui-tests/test-results',
      'ui-tests/playwright-report'
    ]
  },
  js.configs.recommended,
  tseslint.configs.recommended,
  { plugins: { jupyter } },
  jupyter.configs.recommended,
  {
    files: ['**/*.ts', '**/*.tsx'],
    languageOptions: {
      globals: { ...globals.browser },
      parserOptions: {
        project: ['tsconfig.test.json', 'ui-tests/tsconfig.json']
      }
    },
    rules: {
      '@typescript-eslint/naming-convention': [
        'error',
        {
          selector: 'interface',
          format: ['PascalCase'],
          custom: { regex: '^I[A-Z]', match: true }
        }
      ],
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-explicit-any': 'off',
      '@typescript-eslint/no-namespace': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { args: 'none' }],
      curly: ['error', 'all'],
      eqeqeq: 'error',
      'prefer-arrow-callback': 'error'
    }
  },
  {
    files: ['**/*.js'],
    languageOptions: { sourceType: 'commonjs', globals: { ...globals.node } },
    rules: { '@typescript-eslint/no-require-imports': 'off' }
  },
  {
    files: ['style/*.js'],
    languageOptions: { sourceType: 'module' }
  },
  prettier
]);
