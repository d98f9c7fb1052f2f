using System.Linq;
using Scoregate;

/// <summary>The commands that need no gateway.</summary>
internal static class Pure
{
    internal static JsonValue Sign(JsonValue told)
    {
        var target = new SignedTarget
        {
            Method = told["method"].AsText(),
            Authority = told["authority"].AsText(),
            Path = told["path"].AsText(),
            Query = told["query"].AsText(),
            ContentType = told["content_type"].AsText(),
        };
        var parameters = new SignatureParameters
        {
            Created = told["created"].AsLong(),
            Expires = told["expires"].AsLong(),
            Nonce = told["nonce"].AsText(),
            KeyId = told["keyid"].AsText(),
            Tag = told["tag"].AsText(),
            Alg = told["alg"].AsTextOrNull(),
        };
        var body = Made.Bytes(told["body"]);
        var headers = new JsonObject();
        foreach (var header in Signing.Sign(target, body, parameters, Made.Bytes(told["key"])))
        {
            headers.Add(header.Key, header.Value);
        }

        return new JsonObject()
            .Add("headers", headers.Build())
            .Add("base", Signing.SignatureBase(target, body, parameters))
            .Build();
    }

    internal static byte[] Encoded(JsonValue told) => Recording.Encode(
        told["inputs"].AsList().Select(run => new InputRun(Word(run.Items[0]), Word(run.Items[1]))),
        told["checkpoints"].AsList().Select(Hash).ToArray(),
        Word(told["checkpoint_ticks"]));

    internal static byte[] Recorded(JsonValue told)
    {
        var recorder = new Recorder(Word(told["checkpoint_ticks"]));
        var checkpoints = told["checkpoints"].AsList();
        var next = 0;
        foreach (var run in told["inputs"].AsList())
        {
            for (var tick = 0u; tick < Word(run.Items[0]); tick++)
            {
                recorder.Tick(Word(run.Items[1]));
                if (recorder.IsCheckpointDue && next < checkpoints.Count)
                {
                    recorder.Checkpoint(Hash(checkpoints[next++]));
                }
            }
        }

        while (next < checkpoints.Count)
        {
            recorder.Checkpoint(Hash(checkpoints[next++])); // refused: it is one too many
        }

        return recorder.Finish();
    }

    private static ulong Hash(JsonValue digits) => Hex.ToWord(digits.AsText());

    private static uint Word(JsonValue number) => checked((uint)number.AsLong());
}
