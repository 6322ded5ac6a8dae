import { defineConfig } from '@playwright/test';
import { resolve } from 'node:path';
import { personOf } from './environment';

// The workers read this file too: what it decides once goes through the environment.
process.env.PRIME_TEST_PORT ??= '18888';

const port = Number(process.env.PRIME_TEST_PORT);
const root = resolve(__dirname, '..');

/**
 * A server with the offline agent, one whose agent talks to the test API, the test API, and a
 * server with the offline agent and jupyter-collaboration.
 */
const offline = `http://127.0.0.1:${port}`;
const remote = `http://127.0.0.1:${port + 1}`;
const api = `http://127.0.0.1:${port + 2}`;
const collaboration = `http://127.0.0.1:${port + 3}`;
process.env.PRIME_TEST_API = api;
process.env.TARGET_URL ??= offline;

function jupyterLab(name: string, at: string, ...options: string[]) {
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
      ...personOf(name),
      PRIME_TEST_COLLABORATION: name === 'collaboration' ? '1' : ''
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
  // What fails is tried again with a trace, and said to be flaky if it then passes.
  retries: 1,
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
    {
      name: 'collaboration',
      testMatch: 'collaboration/*.spec.ts',
      use: { baseURL: collaboration }
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
    // Recording takes as much of the processor as the test. `--trace on` has it from the first try.
    trace: 'on-first-retry',
    // Recording needs a tool that only Playwright's own download brings.
    video: 'off',
    viewport: { width: 1280, height: 800 },
    launchOptions: {
      // Without one: the browser that Playwright downloaded.
      executablePath: process.env.PRIME_TEST_BROWSER || undefined,
      args: [
        '--no-sandbox',
        // Debian's chromium draws by an emulated GPU unless it is told all of these.
        '--disable-gpu',
        '--disable-gpu-compositing',
        '--disable-gpu-rasterization',
        '--disable-software-rasterizer',
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
      // Soon enough to be waited for, late enough for pandas to be imported.
      '--ModelConfig.run_notice_seconds=8',
      // Small enough to be crossed by one long output.
      '--ContextConfig.max_context_tokens=12000',
      '--ContextConfig.tool_result_cap_tokens=9600'
    ),
    jupyterLab('collaboration', collaboration)
  ]
});
