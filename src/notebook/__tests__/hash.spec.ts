import { sourceHash } from '../hash';

describe('sourceHash', () => {
  it('is the SHA-256 of the UTF-8 source', () => {
    expect(sourceHash('')).toBe(
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    );
    expect(sourceHash('π = 3')).toBe(
      '6e07825ec5b4d6eef5e368cedbecd3ddc755a0e1d5802fb9f2df63360cb43747'
    );
  });
});
