import { defineConfig } from '@playwright/test';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

// The workers read this file too: what it decides once goes through the environment.
process.env.PRIME_TEST_PORT ??= '18888';
process.env.PRIME_TEST_STATE ??= mkdtempSync(join(tmpdir(), 'prime-ui-'));

const port = Number(process.env.PRIME_TEST_PORT);
const state = process.env.PRIME_TEST_STATE;
const root = resolve(__dirname, '..');

/** A server with the offline agent, one whose agent talks to the test API, and the test API. */
const offline = `http://127.0.0.1:${port}`;
const remote = `http://127.0.0.1:${port + 1}`;
const api = `http://127.0.0.1:${port + 2}`;
process.env.PRIME_TEST_API = api;
process.env.TARGET_URL ??= offline;

/**
 * A server with folders of its own, so that a test run neither reads nor changes
 * what the person who starts it keeps in theirs.
 */
function jupyterLab(name: string, at: string, ...options: string[]) {
  const folder = (part: string): string => {
    const path = join(state, name, part);
    mkdirSync(path, { recursive: true });
    return path;
  };
  return {
    command: [
      'jupyter lab --config jupyter_server_test_config.py',
      `--ServerApp.port=${new URL(at).port}`,
      ...options
    ].join(' '),
    url: `${at}/api/status`,
    timeout: 120_000,
    reuseExistingServer: !process.env.CI,
    gracefulShutdown: { signal: 'SIGTERM' as const, timeout: 10_000 },
    env: {
      JUPYTER_CONFIG_DIR: folder('config'),
      JUPYTER_DATA_DIR: folder('data'),
      JUPYTER_RUNTIME_DIR: folder('runtime'),
      JUPYTERLAB_SETTINGS_DIR: folder('settings'),
      JUPYTERLAB_WORKSPACES_DIR: folder('workspaces'),
      JUPYTERLAB_GALATA_ROOT_DIR: folder('root'),
      IPYTHONDIR: folder('ipython'),
      // Never a real model, whatever the person has configured.
      ANTHROPIC_API_KEY: '',
      ANTHROPIC_AUTH_TOKEN: '',
      ANTHROPIC_BASE_URL: '',
      PRIME_API_KEY: ''
    }
  };
}

export default defineConfig({
  testDir: 'tests',
  outputDir: 'test-results',
  // The servers and their kernels are shared, on as few as two cores.
  workers: 1,
  timeout: 120_000,
  expect: { timeout: 20_000 },
  forbidOnly: !!process.env.CI,
  reporter: [['list']],
  projects: [
    {
      name: 'offline',
      testMatch: ['activation.spec.ts', 'offline/*.spec.ts'],
      use: { baseURL: offline }
    },
    {
      name: 'remote',
      testMatch: 'remote/*.spec.ts',
      use: { baseURL: remote }
    },
    ...(process.env.PRIME_DOCS
      ? [
          {
            name: 'docs',
            testMatch: 'docs/*.spec.ts',
            use: { baseURL: remote }
          }
        ]
      : [])
  ],
  use: {
    trace: 'retain-on-failure',
    // Recording needs a tool that only Playwright's own download brings.
    video: 'off',
    viewport: { width: 1280, height: 800 },
    launchOptions: {
      // Without one: the browser that Playwright downloaded.
      executablePath: process.env.PRIME_TEST_BROWSER || undefined,
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync'
      ]
    }
  },
  webServer: [
    jupyterLab('offline', offline),
    {
      command: [
        'python -m tests.messages_api --first-token 0.05 --tokens-per-second 400',
        `--port ${port + 2} --script tests/messages_api/scenarios/analysis.py`
      ].join(' '),
      cwd: root,
      port: port + 2,
      reuseExistingServer: !process.env.CI
    },
    jupyterLab(
      'remote',
      remote,
      `--ModelConfig.base_url=${api}`,
      '--ModelConfig.api_key=test-key-0123456789',
      // The test API is on this machine; a person is asked all the same, to see it.
      '--ModelConfig.consent=always',
      // Small enough to be crossed by one long output.
      '--ContextConfig.max_context_tokens=12000',
      '--ContextConfig.tool_result_cap_tokens=6000'
    )
  ]
});
