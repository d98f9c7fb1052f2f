using System;
using System.Collections.Generic;
using System.IO;
using System.Security.Cryptography;

namespace Scoregate
{
    /// <summary>Encodes recordings, container version 1 (docs/reference/recording.md).</summary>
    public static class Recording
    {
        private static readonly byte[] Magic = { 0x53, 0x47, 0x52, 0x31 }; // "SGR1"

        /// <summary>
        /// Return the one encoding of a play: the inputs in stretches, and a state hash after every
        /// <paramref name="checkpointTicks"/> ticks (0 for none). Neighbours with the same word become one stretch.
        /// </summary>
        /// <exception cref="ArgumentException">The play cannot be encoded.</exception>
        public static byte[] Encode(IEnumerable<InputRun> inputs, IReadOnlyList<ulong> checkpoints, uint checkpointTicks)
        {
            var merged = Merged(inputs);
            ulong ticks = 0;
            foreach (var run in merged)
            {
                ticks += run.Length;
            }

            RequireWhole(ticks, (ulong)checkpoints.Count, checkpointTicks);
            using (var bytes = new MemoryStream())
            {
                bytes.Write(Magic, 0, Magic.Length);
                WriteVarint(bytes, (uint)ticks);
                WriteVarint(bytes, checkpointTicks);
                WriteVarint(bytes, (uint)merged.Count);
                foreach (var run in merged)
                {
                    WriteVarint(bytes, run.Length);
                    WriteVarint(bytes, run.Word);
                }

                foreach (var hash in checkpoints)
                {
                    WriteLittleEndian(bytes, hash);
                }

                return bytes.ToArray();
            }
        }

        /// <summary>Return "sha256:" and the digest of a recording, as a commit names it.</summary>
        public static string Digest(byte[] recording)
        {
            using (var sha256 = SHA256.Create())
            {
                return "sha256:" + Hex.Of(sha256.ComputeHash(recording));
            }
        }

        private static List<InputRun> Merged(IEnumerable<InputRun> inputs)
        {
            var merged = new List<InputRun>();
            foreach (var run in inputs)
            {
                if (run.Length == 0)
                {
                    throw new ArgumentException("a stretch of inputs has no ticks");
                }

                var last = merged.Count - 1;
                if (last >= 0 && merged[last].Word == run.Word)
                {
                    merged[last] = new InputRun(Sum(merged[last].Length, run.Length), run.Word);
                }
                else
                {
                    merged.Add(run);
                }
            }

            return merged;
        }

        private static uint Sum(uint length, uint more)
        {
            if (more > uint.MaxValue - length)
            {
                throw new ArgumentException("a recording has at most 4294967295 ticks");
            }

            return length + more;
        }

        private static void RequireWhole(ulong ticks, ulong checkpoints, uint checkpointTicks)
        {
            if (ticks == 0 || ticks > uint.MaxValue)
            {
                throw new ArgumentException("a recording has 1 to 4294967295 ticks, not " + ticks);
            }

            var expected = checkpointTicks == 0 ? 0 : ticks / checkpointTicks;
            if (checkpoints != expected)
            {
                throw new ArgumentException(expected + " checkpoints were expected, not " + checkpoints);
            }
        }

        private static void WriteVarint(Stream bytes, uint number)
        {
            while (number > 127)
            {
                bytes.WriteByte((byte)((number & 127) | 128));
                number >>= 7;
            }

            bytes.WriteByte((byte)number);
        }

        private static void WriteLittleEndian(Stream bytes, ulong word)
        {
            for (var shift = 0; shift < 64; shift += 8)
            {
                bytes.WriteByte((byte)(word >> shift));
            }
        }
    }
}
