import { ServerConnection } from '@jupyterlab/services';

import { ApiError, PrimeApi } from '../rest';

function answering(
  status: number,
  body: string,
  seen: Request[] = []
): PrimeApi {
  return new PrimeApi(
    ServerConnection.makeSettings({
      baseUrl: 'http://localhost/base/',
      fetch: async (input: RequestInfo | URL): Promise<Response> => {
        seen.push(input as Request);
        return new Response(status === 204 ? null : body, { status });
      }
    })
  );
}

describe('PrimeApi', () => {
  it('encodes parts of the URL', async () => {
    const seen: Request[] = [];
    const api = answering(200, '{"sessions": []}', seen);
    await api.sessions('a b/ü&c.ipynb');
    await api.session('x/../y').catch(() => undefined);
    // JupyterLab adds a timestamp to each GET request to bypass caches.
    const urls = seen.map(({ url }) => url.replace(/[?&]\d+$/, ''));
    expect(urls).toEqual([
      'http://localhost/base/prime/api/sessions?notebook=a%20b%2F%C3%BC%26c.ipynb',
      'http://localhost/base/prime/api/sessions/x%2F..%2Fy'
    ]);
  });

  it('sends a message as JSON', async () => {
    const seen: Request[] = [];
    const api = answering(202, '{"seq": 3, "queued": true}', seen);
    await expect(api.send('s', 'hello')).resolves.toEqual({
      seq: 3,
      queued: true
    });
    expect(seen[0].method).toBe('POST');
    expect(seen[0].headers.get('Content-Type')).toBe('application/json');
    await expect(seen[0].json()).resolves.toEqual({
      text: 'hello',
      attachments: []
    });
  });

  it('accepts a response without a body', async () => {
    await expect(
      answering(204, '').clearCredentials()
    ).resolves.toBeUndefined();
  });

  it('passes on the server’s error', async () => {
    const api = answering(
      413,
      '{"code": "message_too_large", "message": "Too large.", "hint": "Use a file."}'
    );
    await expect(api.send('s', 'x')).rejects.toMatchObject({
      status: 413,
      code: 'message_too_large',
      message: 'Too large.',
      hint: 'Use a file.'
    });
  });

  it('turns the error page of a proxy into an error', async () => {
    const failure = await answering(502, '<html>Bad gateway</html>')
      .status()
      .catch(reason => reason);
    expect(failure).toBeInstanceOf(ApiError);
    expect(failure).toMatchObject({ status: 502, code: 'http_error' });
    expect(failure.message).toContain('502');
  });

  it('throws an error if the server cannot be reached', async () => {
    const api = new PrimeApi(
      ServerConnection.makeSettings({
        fetch: async (): Promise<Response> => {
          throw new TypeError('Failed to fetch');
        }
      })
    );
    await expect(api.status()).rejects.toMatchObject({
      status: 0,
      code: 'server_unreachable'
    });
  });
});
