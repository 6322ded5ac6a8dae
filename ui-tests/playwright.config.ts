import { defineConfig } from '@playwright/test';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// The workers read this file too: what it decides once goes through the environment.
process.env.PRIME_TEST_PORT ??= '18888';
process.env.TARGET_URL ??= `http://127.0.0.1:${process.env.PRIME_TEST_PORT}`;
process.env.PRIME_TEST_STATE ??= mkdtempSync(join(tmpdir(), 'prime-ui-'));

const state = process.env.PRIME_TEST_STATE;

/**
 * A folder of the server's own, so that a test run neither reads nor changes
 * what the person who starts it keeps in theirs.
 */
function folder(name: string): string {
  const path = join(state, name);
  mkdirSync(path, { recursive: true });
  return path;
}

export default defineConfig({
  testDir: 'tests',
  outputDir: 'test-results',
  // One server and its kernels are shared, on as few as two cores.
  workers: 1,
  timeout: 120_000,
  expect: { timeout: 20_000 },
  forbidOnly: !!process.env.CI,
  reporter: [['list']],
  use: {
    baseURL: process.env.TARGET_URL,
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
  webServer: {
    command: 'jupyter lab --config jupyter_server_test_config.py',
    url: `${process.env.TARGET_URL}/api/status`,
    timeout: 120_000,
    reuseExistingServer: !process.env.CI,
    gracefulShutdown: { signal: 'SIGTERM', timeout: 10_000 },
    env: {
      JUPYTER_CONFIG_DIR: folder('config'),
      JUPYTER_DATA_DIR: folder('data'),
      JUPYTER_RUNTIME_DIR: folder('runtime'),
      JUPYTERLAB_SETTINGS_DIR: folder('settings'),
      JUPYTERLAB_GALATA_ROOT_DIR: folder('root'),
      IPYTHONDIR: folder('ipython'),
      // Never a real model, whatever the person has configured.
      ANTHROPIC_API_KEY: '',
      ANTHROPIC_BASE_URL: '',
      PRIME_API_KEY: ''
    }
  }
});
