import { Sanitizer } from '@jupyterlab/apputils/lib/sanitizer';
import { nullTranslator } from '@jupyterlab/translation';

import { UntrustedSanitizer } from '../untrusted';

describe('UntrustedSanitizer', () => {
  let allow = false;
  const sanitizer = new UntrustedSanitizer(
    new Sanitizer(),
    nullTranslator.load('prime_ext'),
    () => allow
  );
  const clean = (html: string): HTMLElement => {
    const element = document.createElement('div');
    element.innerHTML = sanitizer.sanitize(html);
    return element;
  };

  beforeEach(() => {
    allow = false;
  });

  it('replaces images on other servers by links', () => {
    const element = clean('<p><img src="https://evil.test/?q=1" alt="A"></p>');
    expect(element.querySelector('img')).toBeNull();
    const link = element.querySelector('a')!;
    expect(link.textContent).toBe('Image: A');
    expect(link.getAttribute('href')).toBe('https://evil.test/?q=1');
    expect(link.rel).toContain('noreferrer');
  });

  it.each([
    ['//evil.test/a.png'],
    ['http://evil.test/a.png'],
    ['HTTPS://evil.test/a.png']
  ])('replaces %s', src => {
    expect(clean(`<img src="${src}">`).querySelector('img')).toBeNull();
  });

  it.each([
    ['<input type="image" src="https://evil.test/a.png">'],
    ['<video poster="https://evil.test/a.png" controls></video>'],
    ['<audio src="https://evil.test/a.mp3"></audio>']
  ])('prevents loading by %s', html => {
    const element = clean(html);
    const loads = '[src*="evil"], [poster*="evil"]';
    expect(element.querySelector(loads)).toBeNull();
  });

  it('removes styles that load something', () => {
    const html = clean(
      '<p style="background-image: url(https://evil.test/a.png)">x</p>'
    ).innerHTML;
    expect(html).not.toContain('evil.test');
  });

  it('keeps the notebook’s own images', () => {
    const element = clean(
      '<img src="plots/a.png"><img src="data:image/png;base64,iVBORw0KGgo=">'
    );
    expect(element.querySelectorAll('img')).toHaveLength(2);
  });

  it('keeps them if the user wants them', () => {
    allow = true;
    expect(
      clean('<img src="https://example.org/a.png">').querySelector('img')
    ).not.toBeNull();
  });

  it('still removes scripts', () => {
    allow = true;
    const element = clean(
      '<script>alert(1)</script><b onclick="alert(1)">x</b>'
    );
    expect(element.innerHTML).toBe('<b>x</b>');
  });
});
